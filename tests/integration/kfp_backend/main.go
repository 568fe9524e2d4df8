// Command kfp_backend serves the API of Kubeflow Pipelines on loopback, for tests: the release's own handlers, its
// resource manager, its compiler to Argo and Argo's validation, over the in-memory database, object store and cluster
// that the release's own tests use. Nothing is run: a test that wants a run to proceed reports its workflow, as the
// persistence agent would, to /apis/v2beta1/workflows. GET /argo/{run} is the workflow of a run in the cluster, GET
// /argo/{run}/executed the same as Argo runs it where Kubeflow configured it; DELETE /argo/{run} deletes it. POST
// /schedules/{id}/due starts a schedule's next run. What pods have written and what lies in the object store is put
// there with PUT /pods/{pod} and PUT /objects/{path}; DELETE /pods/{pod} ends a pod. What driver and launcher read off
// their settings for the object store, POST /launcher-settings tells.
//
// As in a stock installation without users, the server may not read the logs of pods; the web interface may, at the
// address that GET /interface tells.
//
// It prints the address that it serves at, and ends when its standard input is closed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/mux"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	apiv1 "github.com/kubeflow/pipelines/backend/api/v1beta1/go_client"
	api "github.com/kubeflow/pipelines/backend/api/v2beta1/go_client"
	"github.com/kubeflow/pipelines/backend/src/apiserver/common"
	"github.com/kubeflow/pipelines/backend/src/apiserver/config/proxy"
	"github.com/kubeflow/pipelines/backend/src/apiserver/resource"
	"github.com/kubeflow/pipelines/backend/src/apiserver/server"
	"github.com/kubeflow/pipelines/backend/src/common/util"
	"github.com/spf13/viper"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const namespace = "kubeflow"

// written is what the pods that there are have written.
var written = &pods{texts: map[string]string{}}

func main() {
	viper.Set(common.PodNamespace, namespace)
	viper.Set("DEFAULTPIPELINERUNNERSERVICEACCOUNT", "pipeline-runner")
	viper.Set("CRON_SCHEDULE_TIMEZONE", "UTC")
	proxy.InitializeConfigWithEmptyForTests()

	clients, err := resource.NewFakeClientManager(util.NewRealTime(), util.NewUUIDGenerator())
	check(err)
	defer clients.Close()
	there := newManager(clients)
	resources := resource.NewResourceManager(there, &resource.ResourceManagerOptions{})
	_, err = resources.CreateDefaultExperiment("")
	check(err)

	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	router := routes(resources, there, serveGRPC(resources))
	serveInterface(router)
	go func() { check(http.Serve(web, router)) }()
	fmt.Printf("http://%s\n", web.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveGRPC starts the services, and returns the address that the gateway calls.
func serveGRPC(resources *resource.ResourceManager) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	services := grpc.NewServer(grpc.UnaryInterceptor(asStatus))
	api.RegisterExperimentServiceServer(services, server.NewExperimentServer(resources, &server.ExperimentServerOptions{}))
	api.RegisterPipelineServiceServer(services, server.NewPipelineServer(resources, &server.PipelineServerOptions{}))
	api.RegisterRecurringRunServiceServer(services, server.NewJobServer(resources, &server.JobServerOptions{}))
	api.RegisterRunServiceServer(services, server.NewRunServer(resources, &server.RunServerOptions{}))
	api.RegisterReportServiceServer(services, server.NewReportServer(resources))
	apiv1.RegisterTaskServiceServer(services, server.NewTaskServer(resources))
	apiv1.RegisterRunServiceServer(services, server.NewRunServerV1(resources, &server.RunServerOptions{}))
	go func() { check(services.Serve(listener)) }()
	return listener.Addr().String()
}

// asStatus turns the server's errors into gRPC's, as the release's own interceptor does.
func asStatus(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err != nil {
		return answer, util.ToGRPCError(err)
	}
	return answer, nil
}

func routes(resources *resource.ResourceManager, there manager, services string) *mux.Router {
	gateway := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, common.CustomMarshaler()))
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	for _, register := range []func(context.Context, *runtime.ServeMux, string, []grpc.DialOption) error{
		api.RegisterExperimentServiceHandlerFromEndpoint,
		api.RegisterPipelineServiceHandlerFromEndpoint,
		api.RegisterRecurringRunServiceHandlerFromEndpoint,
		api.RegisterRunServiceHandlerFromEndpoint,
		api.RegisterReportServiceHandlerFromEndpoint,
		apiv1.RegisterRunServiceHandlerFromEndpoint,
	} {
		check(register(context.Background(), gateway, services, options))
	}
	uploads := server.NewPipelineUploadServer(resources, &server.PipelineUploadServerOptions{})
	router := mux.NewRouter()
	router.HandleFunc("/apis/v2beta1/pipelines/upload", uploads.UploadPipeline)
	router.HandleFunc("/apis/v2beta1/pipelines/upload_version", uploads.UploadPipelineVersion)
	router.HandleFunc("/apis/v2beta1/healthz", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(answer, `{"tag_name": "2.17.0", "multi_user": false, "pipeline_store": "database"}`)
	})
	router.HandleFunc("/grpc", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(answer, "%q", services)
	})
	router.HandleFunc("/argo/{run}", func(answer http.ResponseWriter, request *http.Request) {
		found := there.workflows.find(request.Context(), mux.Vars(request)["run"])
		switch {
		case found == nil:
			http.NotFound(answer, request)
		case request.Method == http.MethodDelete:
			check(there.workflows.Delete(request.Context(), found.Name, metav1.DeleteOptions{}))
		default:
			fmt.Fprintln(answer, util.NewWorkflow(found).ToStringForStore())
		}
	})
	router.HandleFunc("/argo/{run}/executed", func(answer http.ResponseWriter, request *http.Request) {
		found := there.workflows.find(request.Context(), mux.Vars(request)["run"])
		if found == nil {
			http.NotFound(answer, request)
			return
		}
		fmt.Fprintln(answer, util.NewWorkflow(executed(found)).ToStringForStore())
	})
	router.HandleFunc("/schedules/{id}/due", there.schedules.due(resources))
	router.HandleFunc("/pods/{pod}", written.change)
	router.HandleFunc("/objects/{path:.*}", func(_ http.ResponseWriter, request *http.Request) {
		content, err := io.ReadAll(request.Body)
		check(err)
		check(there.ObjectStore().AddFile(request.Context(), content, mux.Vars(request)["path"]))
	})
	router.HandleFunc("/launcher-settings", launcherSettings)
	logs := server.NewRunLogServer(resources)
	router.HandleFunc("/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log", logs.ReadRunLogV1)
	router.PathPrefix("/apis/").Handler(gateway)
	return router
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
