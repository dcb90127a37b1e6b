package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/rbac"
)

func rbacCommand(std streams) *cobra.Command {
	var account rbac.Account
	cmd := &cobra.Command{
		Use: "rbac", Short: "print the permissions that the config needs, for kubectl apply", GroupID: setUpGroup,
		Long: `informd rbac prints a ServiceAccount with the roles and bindings that the config needs, and
no more. Entries that name namespaces get a Role per namespace; other entries get a
ClusterRole. informd rbac contacts no server. The namespace of the account must exist
before kubectl apply.`,
		Example: `kubectl create namespace informd
informd rbac -c config.yaml | kubectl apply -f -
informd rbac -c config.yaml --name orders --namespace shop`,
		Annotations: exitCodes("0 ok, 2 wrong usage or config"),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAccount(account); err != nil {
				return err
			}
			c, err := std.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			return rbac.Write(std.out, c, account)
		},
	}
	configFlag(cmd)
	cmd.Flags().StringVar(&account.Name, "name", rbac.DefaultName, "name of the ServiceAccount that informd runs as")
	cmd.Flags().StringVar(&account.Namespace, "namespace", rbac.DefaultNamespace, "namespace of the ServiceAccount")
	return cmd
}

func checkAccount(account rbac.Account) error {
	if len(validation.IsDNS1123Subdomain(account.Name)) > 0 {
		return misused("--name %q: lower-case letters, digits, '-' and '.', with a letter or digit at both ends", account.Name)
	}
	if len(validation.IsDNS1123Label(account.Namespace)) > 0 {
		return misused("--namespace %q: up to 63 lower-case letters, digits and '-', with a letter or digit at both ends", account.Namespace)
	}
	return nil
}
