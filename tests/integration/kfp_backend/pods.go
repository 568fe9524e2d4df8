package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/gorilla/mux"
	"github.com/kubeflow/pipelines/backend/src/apiserver/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	fakerest "k8s.io/client-go/rest/fake"
)

// KubernetesCoreClient knows the pods that a test has put there; the release's fake knows none.
func (m manager) KubernetesCoreClient() client.KubernetesCoreInterface {
	return core{m.FakeClientManager.KubernetesCoreClient()}
}

type core struct{ client.KubernetesCoreInterface }

// PodClient is asked without a namespace by a server without users, whose role holds for its own namespace alone.
func (c core) PodClient(of string) typedcore.PodInterface {
	if of == "" {
		return forbidden{written}
	}
	return written
}

type forbidden struct{ *pods }

// GetLogs answers as Kubernetes does to an account that may not.
func (f forbidden) GetLogs(name string, _ *corev1.PodLogOptions) *rest.Request {
	why := fmt.Sprintf("pods %q is forbidden: User \"system:serviceaccount:kubeflow:ml-pipeline\" cannot get resource"+
		" \"pods/log\" in API group \"\" at the cluster scope", name)
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: why,
	}
	text, err := json.Marshal(status)
	check(err)
	return answering(http.StatusForbidden, string(text))
}

type pods struct {
	client.FakePodClient
	lock  sync.Mutex
	texts map[string]string
}

// GetLogs answers as Kubernetes does, 404 where there is no such pod.
func (p *pods) GetLogs(name string, _ *corev1.PodLogOptions) *rest.Request {
	p.lock.Lock()
	text, found := p.texts[name]
	p.lock.Unlock()
	status := http.StatusOK
	if !found {
		status = http.StatusNotFound
	}
	return answering(status, text)
}

func answering(status int, text string) *rest.Request {
	answer := func(*http.Request) (*http.Response, error) {
		kind := http.Header{"Content-Type": []string{"application/json"}}
		return &http.Response{StatusCode: status, Header: kind, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	kubernetes := &fakerest.RESTClient{
		Client:               fakerest.CreateHTTPClient(answer),
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
	}
	return kubernetes.Request()
}

// change lets a test put a pod there with what it wrote, or end it.
func (p *pods) change(_ http.ResponseWriter, request *http.Request) {
	name := mux.Vars(request)["pod"]
	content, err := io.ReadAll(request.Body)
	check(err)
	p.lock.Lock()
	defer p.lock.Unlock()
	if request.Method == http.MethodDelete {
		delete(p.texts, name)
		return
	}
	p.texts[name] = string(content)
}

// serveInterface serves what Kubeflow's web interface does beside its page: it passes the API on, but not the path of
// the logs, and reads pods by its own account, and the archive where a pod is gone.
func serveInterface(router *mux.Router) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	web := mux.NewRouter()
	web.HandleFunc("/k8s/pod/logs", func(answer http.ResponseWriter, request *http.Request) {
		written.lock.Lock()
		text, found := written.texts[request.URL.Query().Get("podname")]
		written.lock.Unlock()
		if found {
			fmt.Fprint(answer, text)
			return
		}
		query := request.URL.Query()
		request.URL.Path = fmt.Sprintf("/apis/v1alpha1/runs/%s/nodes/%s/log", query.Get("runid"), query.Get("podname"))
		archive := httptest.NewRecorder()
		router.ServeHTTP(archive, request)
		if strings.HasPrefix(archive.Body.String(), `{"error_message"`) {
			http.Error(answer, "Could not get main container logs: pod not found", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(answer, archive.Body)
	})
	web.PathPrefix("/apis/v2beta1/").Handler(router)
	web.PathPrefix("/apis/v1beta1/").Handler(router)
	web.PathPrefix("/").HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(answer, "<!doctype html><title>Kubeflow Pipelines</title>")
	})
	router.HandleFunc("/interface", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(answer, "%q", "http://"+listener.Addr().String())
	})
	go func() { check(http.Serve(listener, web)) }()
}
