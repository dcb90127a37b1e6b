package daemon

import (
	"reflect"
	"testing"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
)

// TestEveryKeyReachesDynwatch: no key of a resource is read, documented and ignored, and none makes informd emit the
// values of Secrets.
func TestEveryKeyReachesDynwatch(t *testing.T) {
	var r config.Resource
	without := wantedOf(r)
	each(reflect.ValueOf(&r).Elem(), func(key string) {
		switch with := wantedOf(r); {
		case reflect.DeepEqual(with, without):
			t.Errorf("%s changes nothing", key)
		case with.Exact:
			t.Errorf("%s makes it exact", key)
		}
	})
}

// TestDefaultMaxWatches: the program and the package have the same default, which each of them documents.
func TestDefaultMaxWatches(t *testing.T) {
	if got := config.Defaults().Kubernetes.MaxWatches; got != dynwatch.DefaultMaxWatches {
		t.Errorf("maxWatches is %d by default, and %d in dynwatch", got, dynwatch.DefaultMaxWatches)
	}
}

func wantedOf(r config.Resource) dynwatch.Resource {
	return wanted(&config.Config{Resources: []config.Resource{r}})[0]
}

// each calls do with each field set alone that is a key of the config.
func each(v reflect.Value, do func(key string)) {
	for i, f := range v.Fields() {
		key := i.Tag.Get("yaml")
		switch {
		case key == "-":
			continue
		case f.Kind() == reflect.Struct:
			each(f, do)
			continue
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.String:
			f.SetString(config.ChangesPatch)
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			f.Index(0).SetString(config.ChangesPatch)
		default:
			f.SetInt(1)
		}
		do(key)
		f.SetZero()
	}
}
