package main

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/mux"
	"github.com/kubeflow/pipelines/backend/src/apiserver/client"
	corev1 "k8s.io/api/core/v1"
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

func (c core) PodClient(string) typedcore.PodInterface { return written }

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
	answer := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
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
