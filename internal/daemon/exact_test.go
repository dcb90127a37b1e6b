package daemon

import (
	"reflect"
	"testing"

	"github.com/informd/informd/internal/config"
)

// TestExactIsNotInTheConfig: no config makes informd emit the values of Secrets.
func TestExactIsNotInTheConfig(t *testing.T) {
	for field := range reflect.TypeFor[config.Resource]().Fields() {
		if field.Name == "Exact" {
			t.Error("the config has Exact")
		}
	}
	var r config.Resource
	fill(reflect.ValueOf(&r).Elem())
	for _, w := range wanted(&config.Config{Resources: []config.Resource{r}}) {
		if w.Exact {
			t.Errorf("%+v is exact", w)
		}
	}
}

// fill sets every field that is a truth value, text or list of texts.
func fill(v reflect.Value) {
	for _, f := range v.Fields() {
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("a")
		case reflect.Struct:
			fill(f)
		default:
		}
	}
}
