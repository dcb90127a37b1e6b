package main

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/cmd/informd/internal/rbac"
	"github.com/informd/informd/pkg/sink/drivers"
)

func rbacCommand() command {
	return command{
		name: "rbac", summary: "print the permissions that the config needs, for kubectl apply; contacts nothing",
		long: `It prints a ServiceAccount, and the roles and bindings with which that may do what
the config needs and nothing else: a Role per namespace for the entries that name
namespaces, a ClusterRole for the others. The namespace of the account is not in it,
and must be there first.`,
		examples: `kubectl create namespace informd
informd rbac -c config.yaml | kubectl apply -f -
informd rbac -c config.yaml --name orders --namespace shop`,
		exits: "0 ok, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("name", rbac.DefaultName, "name of the ServiceAccount that informd runs as")
			flags.String("namespace", rbac.DefaultNamespace, "namespace of the ServiceAccount")
		},
		run: func(_ context.Context, io streams, flags *pflag.FlagSet) error {
			account := rbac.Account{Name: flags.Lookup("name").Value.String(), Namespace: flags.Lookup("namespace").Value.String()}
			if len(validation.IsDNS1123Subdomain(account.Name)) > 0 {
				return misused("--name %q: lower-case letters, digits, '-' and '.', with a letter or digit at both ends", account.Name)
			}
			if len(validation.IsDNS1123Label(account.Namespace)) > 0 {
				return misused("--namespace %q: up to 63 lower-case letters, digits and '-', with a letter or digit at both ends", account.Namespace)
			}
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			return rbac.Write(io.out, c, account)
		},
	}
}
