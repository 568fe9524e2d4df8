package main

import (
	"encoding/json"
	"net/http"

	"github.com/kubeflow/pipelines/backend/src/v2/config"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// launcherSettings answers what the release's driver and launcher take from a ConfigMap `kfp-launcher` with the data
// that is sent: the pipeline root, and how they reach the store of that root (or of the one that `root` asks for).
func launcherSettings(answer http.ResponseWriter, request *http.Request) {
	data := map[string]string{}
	check(json.NewDecoder(request.Body).Decode(&data))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kfp-launcher", Namespace: namespace}, Data: data}
	settings, err := config.FromConfigMap(request.Context(), fake.NewSimpleClientset(object), namespace)
	check(err)
	root := request.URL.Query().Get("root")
	if root == "" {
		root = settings.DefaultPipelineRoot()
	}
	store, err := settings.GetStoreSessionInfo(root)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	check(json.NewEncoder(answer).Encode(map[string]any{"root": root, "provider": store.Provider, "params": store.Params}))
}
