"""TFX's own components under its LocalDagRunner.

    python -m benchmarks.stock.pipeline CONFIG DATA_FOLDER OUT_FOLDER [--as-example]

As TFX's taxi example writes it, but for two costs that a user can avoid: the module is named by its import path, not by
`module_file` (of which TFX builds a wheel and installs it with pip at run time, twice), and Transform computes no
statistics of its inputs and outputs. With `--as-example` it has both, as the example does.
"""

import argparse
from pathlib import Path

from tfx import v1 as tfx

from benchmarks.stock import taxi_utils
from headrace.components.evaluation.tfma import eval_config
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load

MODULE = taxi_utils.__name__


def create_pipeline(config: PipelineConfig, data: str, out: Path, *, as_example: bool) -> tfx.dsl.Pipeline:
    """Nine components; splits, epochs, batch size, metrics, slices and thresholds are the config's."""
    split = tfx.proto.SplitConfig.Split
    splits = [split(name=name, hash_buckets=count) for name, count in config.data.splits.items()]
    example_gen = tfx.components.CsvExampleGen(
        input_base=data,
        output_config=tfx.proto.Output(split_config=tfx.proto.SplitConfig(splits=splits)),
    )
    examples = example_gen.outputs["examples"]
    statistics_gen = tfx.components.StatisticsGen(examples=examples)
    schema_gen = tfx.components.SchemaGen(statistics=statistics_gen.outputs["statistics"], infer_feature_shape=False)
    schema = schema_gen.outputs["schema"]
    validator = tfx.components.ExampleValidator(statistics=statistics_gen.outputs["statistics"], schema=schema)
    transform = tfx.components.Transform(
        examples=examples,
        schema=schema,
        disable_statistics=not as_example,
        **({"module_file": taxi_utils.__file__} if as_example else {"preprocessing_fn": f"{MODULE}.preprocessing_fn"}),
    )
    trainer = tfx.components.Trainer(
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=tfx.proto.TrainArgs(),
        eval_args=tfx.proto.EvalArgs(),
        custom_config={"epochs": config.train.epochs, "batch_size": config.train.batch_size},
        **({"module_file": taxi_utils.__file__} if as_example else {"run_fn": f"{MODULE}.run_fn"}),
    )
    model = trainer.outputs["model"]
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    evaluator = tfx.components.Evaluator(
        examples=examples,
        model=model,
        baseline_model=resolver.outputs["model"],
        example_splits=[config.evaluated_split],
        eval_config=eval_config(config.label, config.evaluate),
    )
    pusher = tfx.components.Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(out / "serving"))
        ),
    )
    return tfx.dsl.Pipeline(
        config.pipeline.name,
        str(out / "artifacts"),
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            validator,
            transform,
            trainer,
            resolver,
            evaluator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(out / "metadata.sqlite")
        ),
        beam_pipeline_args=["--runner=FnApiRunner"],
    )


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--as-example", action="store_true")
    given = parser.parse_args()
    config = load(given.config, overrides=given.overrides)
    pipeline = create_pipeline(config, given.data, given.out.absolute(), as_example=given.as_example)
    tfx.orchestration.LocalDagRunner().run(pipeline)


if __name__ == "__main__":
    main()
