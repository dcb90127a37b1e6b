package library

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation"
)

// named is a format of strings.
type named struct {
	name string
	// mistakes says what is wrong with a string.
	mistakes func(string) []string
}

// formats are format.dns1123Label() and its like, format.named("uuid"), and
// <format>.validate(<string>), an optional list of what is wrong.
func formats() []cel.EnvOption {
	of := cel.ObjectType("kubernetes.NamedFormat")
	all := map[string]ref.Val{}
	for _, one := range knownFormats() {
		all[one.name] = &opaque[named]{of: of, value: one, equal: func(a, b named) bool { return a.name == b.name }}
	}
	options := []cel.EnvOption{
		cel.Function("format.named", cel.Overload("format-named", args(cel.StringType), cel.OptionalType(of), unary(func(name string) ref.Val {
			if one, ok := all[name]; ok {
				return types.OptionalOf(one)
			}
			return types.OptionalNone
		}))),
		cel.Function("validate", cel.MemberOverload("format-validate", args(of, cel.StringType), cel.OptionalType(cel.ListType(cel.StringType)),
			binary(func(f named, s string) ref.Val {
				if mistakes := f.mistakes(s); len(mistakes) > 0 {
					return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, mistakes))
				}
				return types.OptionalNone
			}))),
	}
	for name, one := range all {
		id := "format." + name
		options = append(options, cel.Function(id, cel.Overload(id, nil, of, cel.FunctionBinding(func(...ref.Val) ref.Val { return one }))))
	}
	return options
}

func knownFormats() []named {
	uuid := regexp.MustCompile(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)
	// What a prefix may end in that a name may not is the dash before what follows.
	prefix := func(check func(string) []string) func(string) []string {
		return func(s string) []string {
			if strings.HasSuffix(s, "-") {
				s = s[:len(s)-1] + "a"
			}
			return check(s)
		}
	}
	unless := func(good func(string) bool, message string) func(string) []string {
		return func(s string) []string {
			if good(s) {
				return nil
			}
			return []string{message}
		}
	}
	parses := func(layout string) func(string) bool {
		return func(s string) bool {
			_, err := time.Parse(layout, s)
			return err == nil
		}
	}
	return []named{
		{"dns1123Label", validation.IsDNS1123Label},
		{"dns1123Subdomain", validation.IsDNS1123Subdomain},
		{"dns1035Label", validation.IsDNS1035Label},
		{"dns1123LabelPrefix", prefix(validation.IsDNS1123Label)},
		{"dns1123SubdomainPrefix", prefix(validation.IsDNS1123Subdomain)},
		{"dns1035LabelPrefix", prefix(validation.IsDNS1035Label)},
		{"qualifiedName", validation.IsQualifiedName},
		{"labelValue", validation.IsValidLabelValue},
		{"uri", func(s string) []string {
			if _, err := url.ParseRequestURI(s); err != nil {
				return []string{err.Error()}
			}
			return nil
		}},
		{"uuid", unless(uuid.MatchString, "does not match the UUID format")},
		{"byte", unless(func(s string) bool {
			_, err := base64.StdEncoding.DecodeString(s)
			return err == nil && s != ""
		}, "invalid base64")},
		{"date", unless(parses(time.DateOnly), "invalid date")},
		{"datetime", unless(parses(time.RFC3339), "invalid datetime")},
	}
}
