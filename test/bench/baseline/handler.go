package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// operation is what has happened to an object.
type operation string

const (
	added    operation = "added"
	modified operation = "modified"
	deleted  operation = "deleted"
)

// message is one change on its way to a sink.
type message struct {
	operation operation
	subject   string
	body      []byte
}

// envelope is the body.
type envelope struct {
	Operation operation `json:"op"`
	Group     string    `json:"group"`
	Version   string    `json:"version"`
	Resource  string    `json:"resource"`
	Object    any       `json:"object"`
}

// handler turns what the informer says into messages.
type handler struct {
	sink     sink
	resource schema.GroupVersionResource
}

func (h *handler) funcs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, _ bool) { h.handle(added, o) },
		UpdateFunc: func(_, o any) { h.handle(modified, o) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			h.handle(deleted, o)
		},
	}
}

func (h *handler) handle(op operation, value any) {
	o, ok := value.(metav1.Object)
	if !ok {
		return
	}
	e := envelope{Operation: op, Group: h.resource.Group, Version: h.resource.Version, Resource: h.resource.Resource, Object: value}
	if u, ok := value.(*unstructured.Unstructured); ok {
		e.Object = u.Object // json.Marshal of the map is cheaper than that of the object
	}
	body, err := json.Marshal(e)
	if err == nil {
		subject := strings.Join([]string{"k8s", h.resource.Resource, o.GetNamespace(), o.GetName()}, ".")
		err = h.sink.send(message{operation: op, subject: subject, body: body})
	}
	if err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("send", "object", o.GetName(), "err", err)
	}
}
