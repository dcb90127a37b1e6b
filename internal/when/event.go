package when

import (
	"reflect"
	"strconv"
	"time"

	"github.com/informd/informd/pkg/event"
)

// attributes are what expressions can read of the event of an object, by their tags; expressions see no control
// records. Revisions are text, as in the events themselves and in the objects' metadata.
type attributes struct {
	ID                  string    `cel:"id"`
	Cluster             string    `cel:"cluster"`
	Group               string    `cel:"group"`
	Version             string    `cel:"version"`
	Resource            string    `cel:"resource"`
	Kind                string    `cel:"kind"`
	Namespace           string    `cel:"namespace"`
	Name                string    `cel:"name"`
	UID                 string    `cel:"uid"`
	ResourceVersion     string    `cel:"resourceVersion"`
	PrevResourceVersion string    `cel:"prevResourceVersion"`
	Ordinal             int64     `cel:"ordinal"`
	Time                time.Time `cel:"time"`
	Replay              bool      `cel:"replay"`
}

// attributesType is the CEL type of attributes.
const attributesType = "when.attributes"

func attributesOf(e *event.Event) attributes {
	revision := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	return attributes{
		ID: e.ID, Cluster: e.Cluster, Group: e.Group, Version: e.Version, Resource: e.Resource, Kind: e.Kind,
		Namespace: e.Namespace, Name: e.Name, UID: e.UID,
		ResourceVersion: revision(e.ResourceVersion), PrevResourceVersion: revision(e.PrevResourceVersion),
		Ordinal: int64(e.Ordinal), Time: e.Time.UTC(), Replay: e.Replay,
	}
}

// Fields are the names of what the variable event has.
func Fields() []string {
	var names []string
	for f := range reflect.TypeFor[attributes]().Fields() {
		names = append(names, f.Tag.Get("cel"))
	}
	return names
}
