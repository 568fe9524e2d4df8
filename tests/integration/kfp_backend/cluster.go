package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	wfv1 "github.com/argoproj/argo-workflows/v4/pkg/apis/workflow/v1alpha1"
	"github.com/gorilla/mux"
	api "github.com/kubeflow/pipelines/backend/api/v2beta1/go_client"
	"github.com/kubeflow/pipelines/backend/src/apiserver/client"
	"github.com/kubeflow/pipelines/backend/src/apiserver/resource"
	"github.com/kubeflow/pipelines/backend/src/apiserver/server"
	"github.com/kubeflow/pipelines/backend/src/common/util"
	scheduler "github.com/kubeflow/pipelines/backend/src/crd/controller/scheduledworkflow/util"
	scheduledworkflow "github.com/kubeflow/pipelines/backend/src/crd/pkg/apis/scheduledworkflow/v1beta1"
	scheduledworkflows "github.com/kubeflow/pipelines/backend/src/crd/pkg/client/clientset/versioned/typed/scheduledworkflow/v1beta1"
	"google.golang.org/protobuf/types/known/structpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// argoDefaults is what Kubeflow's own configuration of Argo lays under every workflow (`workflowDefaults` of the
// ConfigMap `workflow-controller-configmap`, since 2.17).
const argoDefaults = `{"ttlStrategy": {"secondsAfterCompletion": 3600, "secondsAfterSuccess": 3600,
	"secondsAfterFailure": 3600}, "templateDefaults": {"retryStrategy": {"limit": "2", "retryPolicy": "OnError"}}}`

// executed is the workflow as Argo's controller runs it: with the defaults under the workflow, and under each template,
// by the same merges as in Argo's `MergeTo` and `mergedTemplateDefaultsInto`. The object in the cluster stays as it is.
func executed(workflow *wfv1.Workflow) *wfv1.Workflow {
	text, err := json.Marshal(workflow.Spec)
	check(err)
	merged, err := strategicpatch.StrategicMergePatch([]byte(argoDefaults), text, wfv1.WorkflowSpec{})
	check(err)
	run := workflow.DeepCopy()
	run.Spec = wfv1.WorkflowSpec{}
	check(json.Unmarshal(merged, &run.Spec))
	defaults, err := json.Marshal(run.Spec.TemplateDefaults)
	check(err)
	for number, template := range run.Spec.Templates {
		text, err := json.Marshal(template)
		check(err)
		merged, err := strategicpatch.StrategicMergePatch(defaults, text, wfv1.Template{})
		check(err)
		run.Spec.Templates[number] = wfv1.Template{}
		check(json.Unmarshal(merged, &run.Spec.Templates[number]))
	}
	return run
}

// manager gives each schedule a name and an id of its own, as a cluster does (the release's fake gives all the same),
// and lets workflows go.
type manager struct {
	*resource.FakeClientManager
	workflows *workflows
	schedules *schedules
}

func newManager(clients *resource.FakeClientManager) manager {
	there := &workflows{gone: map[string]bool{}}
	there.ExecutionInterface = clients.ExecClientFake.Execution(namespace)
	there.names = clients.ExecClientFake.GetWorkflowKeys
	found := &schedules{workflows: there, ids: map[string]string{}}
	found.ScheduledWorkflowInterface = clients.SwfClient().ScheduledWorkflow(namespace)
	return manager{clients, there, found}
}

func (m manager) ExecClient() util.ExecutionClient { return execution{m.workflows} }

func (m manager) SwfClient() client.SwfClientInterface { return scheduled{m.schedules} }

type execution struct{ workflows *workflows }

func (e execution) Execution(string) util.ExecutionInterface { return e.workflows }

func (e execution) Compare(any, any) bool { return false }

type scheduled struct{ schedules *schedules }

func (s scheduled) ScheduledWorkflow(string) scheduledworkflows.ScheduledWorkflowInterface {
	return s.schedules
}

// workflows are those of the release's fake, which deletes none.
type workflows struct {
	util.ExecutionInterface
	names func() map[string]bool
	lock  sync.Mutex
	gone  map[string]bool
}

func (w *workflows) Get(ctx context.Context, name string, options metav1.GetOptions) (util.ExecutionSpec, error) {
	if w.isGone(name) {
		return nil, notFound(name)
	}
	return w.ExecutionInterface.Get(ctx, name, options)
}

func (w *workflows) Create(ctx context.Context, wanted util.ExecutionSpec, options metav1.CreateOptions) (util.ExecutionSpec, error) {
	made, err := w.ExecutionInterface.Create(ctx, wanted, options)
	if err == nil {
		w.lock.Lock()
		delete(w.gone, made.ExecutionName())
		w.lock.Unlock()
	}
	return made, err
}

func (w *workflows) Update(ctx context.Context, wanted util.ExecutionSpec, options metav1.UpdateOptions) (util.ExecutionSpec, error) {
	if w.isGone(wanted.ExecutionName()) {
		return nil, notFound(wanted.ExecutionName())
	}
	return w.ExecutionInterface.Update(ctx, wanted, options)
}

func (w *workflows) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, parts ...string) (util.ExecutionSpec, error) {
	if w.isGone(name) {
		return nil, notFound(name)
	}
	return w.ExecutionInterface.Patch(ctx, name, kind, data, options, parts...)
}

func (w *workflows) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.gone[name] = true
	return nil
}

func (w *workflows) isGone(name string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.gone[name]
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.ParseGroupResource("workflows.argoproj.io"), name)
}

// find is the workflow of a run that is in the cluster.
func (w *workflows) find(ctx context.Context, run string) *wfv1.Workflow {
	for name := range w.names() {
		found, err := w.Get(ctx, name, metav1.GetOptions{})
		if err == nil && found.ExecutionObjectMeta().Labels["pipeline/runid"] == run {
			return found.(*util.Workflow).Workflow
		}
	}
	return nil
}

type schedules struct {
	scheduledworkflows.ScheduledWorkflowInterface
	workflows *workflows
	lock      sync.Mutex
	ids       map[string]string
}

func (s *schedules) Create(ctx context.Context, wanted *scheduledworkflow.ScheduledWorkflow) (*scheduledworkflow.ScheduledWorkflow, error) {
	id, err := util.NewUUIDGenerator().NewRandom()
	if err != nil {
		return nil, err
	}
	wanted.GenerateName += id.String()
	made, err := s.ScheduledWorkflowInterface.Create(ctx, wanted)
	if err == nil {
		made.UID, made.Namespace = types.UID(id.String()), namespace
		s.lock.Lock()
		s.ids[id.String()] = made.Name
		s.lock.Unlock()
	}
	return made, err
}

// Delete lets Kubernetes collect what the schedule owns, unless it is told to leave that.
func (s *schedules) Delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	there, err := s.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationOrphan {
		for owned := range s.workflows.names() {
			found, err := s.workflows.Get(ctx, owned, metav1.GetOptions{})
			if err == nil && metav1.IsControlledBy(found.ExecutionObjectMeta(), there) {
				check(s.workflows.Delete(ctx, owned, metav1.DeleteOptions{}))
			}
		}
	}
	return s.ScheduledWorkflowInterface.Delete(ctx, name, options)
}

// due starts a schedule's next run, as the scheduled-workflow controller does, and answers with the run's id: a
// workflow that the schedule holds is made as it is, and the server hears of it by the persistence agent; else the
// server is asked for a run of the pipeline.
func (s *schedules) due(resources *resource.ResourceManager) http.HandlerFunc {
	return func(answer http.ResponseWriter, request *http.Request) {
		s.lock.Lock()
		name := s.ids[mux.Vars(request)["id"]]
		s.lock.Unlock()
		there, err := s.Get(request.Context(), name, metav1.GetOptions{})
		if err != nil {
			http.NotFound(answer, request)
			return
		}
		swf := scheduler.NewScheduledWorkflow(there)
		now := util.NewRealTime().Now().Unix()
		if there.Spec.Workflow != nil && there.Spec.Workflow.Spec != nil {
			workflow, err := swf.NewWorkflow(now, now)
			check(err)
			made, err := s.workflows.Create(request.Context(), workflow, metav1.CreateOptions{})
			check(err)
			check(json.NewEncoder(answer).Encode(made.ExecutionObjectMeta().Labels["pipeline/runid"]))
			return
		}
		run, err := server.NewRunServer(resources, &server.RunServerOptions{}).CreateRun(request.Context(), wanted(swf))
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		check(json.NewEncoder(answer).Encode(run.RunId))
	}
}

func wanted(swf *scheduler.ScheduledWorkflow) *api.CreateRunRequest {
	given := &api.RuntimeConfig{Parameters: map[string]*structpb.Value{}}
	if swf.Spec.Workflow != nil {
		given.PipelineRoot = swf.Spec.Workflow.PipelineRoot
		for _, one := range swf.Spec.Workflow.Parameters {
			value := &structpb.Value{}
			check(value.UnmarshalJSON([]byte(one.Value)))
			given.Parameters[one.Name] = value
		}
	}
	chosen := &api.PipelineVersionReference{PipelineId: swf.Spec.PipelineId, PipelineVersionId: swf.Spec.PipelineVersionId}
	return &api.CreateRunRequest{ExperimentId: swf.Spec.ExperimentId, Run: &api.Run{
		ExperimentId:   swf.Spec.ExperimentId,
		DisplayName:    swf.NextResourceName(),
		RecurringRunId: string(swf.UID),
		RuntimeConfig:  given,
		PipelineSource: &api.Run_PipelineVersionReference{PipelineVersionReference: chosen},
		ServiceAccount: swf.Spec.ServiceAccount,
	}}
}
