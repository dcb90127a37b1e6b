package library

import (
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// urls are url("https://..."), isURL, and what the first returns has.
func urls() []cel.EnvOption {
	of := cel.ObjectType("kubernetes.URL")
	part := func(name, id string, get func(*url.URL) string) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, args(of), cel.StringType, unary(func(u *url.URL) ref.Val { return types.String(get(u)) })))
	}
	return []cel.EnvOption{
		cel.Function("url", cel.Overload("string_to_url", args(cel.StringType), of, unary(func(s string) ref.Val {
			// Only what is absolute is a URL here; but this takes a fragment for a part of
			// the path.
			if _, err := url.ParseRequestURI(s); err != nil {
				return types.NewErr("URL parse error during conversion from string: %v", err)
			}
			u, err := url.Parse(s)
			if err != nil {
				return types.NewErr("URL parse error during conversion from string: %v", err)
			}
			return &opaque[*url.URL]{of: of, value: u, equal: func(a, b *url.URL) bool { return a.String() == b.String() }}
		}))),
		cel.Function("isURL", cel.Overload("is_url_string", args(cel.StringType), cel.BoolType, unary(func(s string) ref.Val {
			_, err := url.ParseRequestURI(s)
			return types.Bool(err == nil)
		}))),
		part("getScheme", "url_get_scheme", func(u *url.URL) string { return u.Scheme }),
		part("getHost", "url_get_host", func(u *url.URL) string { return u.Host }),
		part("getHostname", "url_get_hostname", (*url.URL).Hostname),
		part("getPort", "url_get_port", (*url.URL).Port),
		part("getEscapedPath", "url_get_escaped_path", (*url.URL).EscapedPath),
		cel.Function("getQuery", cel.MemberOverload("url_get_query", args(of), cel.MapType(cel.StringType, cel.ListType(cel.StringType)),
			unary(func(u *url.URL) ref.Val {
				query := map[ref.Val]ref.Val{}
				for key, values := range u.Query() {
					query[types.String(key)] = types.NewStringList(types.DefaultTypeAdapter, values)
				}
				return types.NewRefValMap(types.DefaultTypeAdapter, query)
			}))),
	}
}
