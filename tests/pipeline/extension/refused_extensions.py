"""Functions of `pipeline.extend` that are refused, each for a reason of its own: a part of `extensions.MODULE`."""

REFUSED = """\
def raises(components):
    return components.example_gen.outputs["example"]


def waits_for_drift(components):
    return [count(components, column=components.drift.id)]


def returns_none(components):
    count(components)


def returns_one(components):
    return count(components)


def yields(components):
    yield count(components)


def extra_is_one(components):
    return dataclasses.replace(components, extra=count(components))


def returns_names(components):
    return ["Count"]


def twice(components):
    return [count(components), count(components)]


def renamed(components):
    components.trainer.with_id("Learner")
    return []


def same_id(components):
    return [count(components).with_id("Trainer")]


def bad_id(components):
    return [count(components).with_id("my count")]


def circle(components):
    one, other = count(components), count(components).with_id("Other")
    one.add_upstream_node(other)
    other.add_upstream_node(one)
    return [one, other]


def circle_with_ours(components):
    late = OwnModel(components.transform.outputs["transformed_examples"])
    components.data_gate.add_upstream_node(late)
    return [late]


def forgotten(components):
    counts = count(components)
    return [ReadNote(note=counts.outputs["note"], n=counts.outputs["n"])]


def forgotten_gate(components):
    components.transform.add_upstream_node(count(components))
    return []


def local_executor(components):
    class Inside(BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            pass

    return [OwnModel(examples(components), executor=Inside)]


def resolver(components):
    return [Resolver(strategy_class=LatestArtifactsResolver, note=Channel(type=Note))]


def importer(components):
    return [Importer(source_uri="x", artifact_type=Note)]


def example_gen(components):
    return [CsvExampleGen(input_base="x")]


def infra_validator(components):
    return [InfraValidator(model=components.trainer.outputs["model"], serving_spec=infra_validator_pb2.ServingSpec())]


def container(components):
    return [create_container_component(name="Box", image="busybox", command=["true"])()]


def conditional(components):
    with Cond(components.trainer.outputs["model"].future()[0].property("x") == "y"):
        return [count(components)]


def joined(components):
    counts, other = count(components), count(components).with_id("Other")
    notes = union([counts.outputs["note"], other.outputs["note"]])
    return [counts, other, ReadNote(note=notes, n=counts.outputs["n"])]


def later(components):
    return [count(components, column=RuntimeParameter(name="column", ptype=str))]


def beam_arguments(components):
    return [BulkInferrer(examples=examples(components)).with_beam_pipeline_args(["--direct_num_workers=2"])]


def bytes_output(components):
    return [Bytes(examples=examples(components))]


def go_output(components):
    return [Go(examples=examples(components))]


def reserved(components):
    return [Stores(examples=examples(components), store="x")]


def credential(components):
    return [count(components, column="postgresql://shop:hunter2@db.example/trips")]


def module_file(components):
    return [OwnModel(examples(components), module_file="/x/mine.py")]


def custom_config(components):
    return [OwnModel(examples(components), custom_config="[1]")]


def trainer(components):
    return dataclasses.replace(components, trainer=count(components))


def removed(components):
    return dataclasses.replace(components, pusher=None)


def absent(components):
    return dataclasses.replace(components, profile_gate=count(components))


def lacking(components):
    return dataclasses.replace(components, schema_gen=count(components))


def wrong_type(components):
    mine = Wrong(statistics=components.statistics_gen.outputs["statistics"])
    return dataclasses.replace(components, schema_gen=mine)


def around(components):
    return dataclasses.replace(components, schema_gen=Around(inferred=components.schema_gen.outputs["schema"]))


def same_task(components):
    counts = count(components)
    made = {"note": counts.outputs["note"], "n": counts.outputs["n"]}
    return [counts, read_note(**made), ReadNote(**made)]
"""
