// Command coredns is CoreDNS with only the plug-ins a bed uses: a sixth of
// the usual size, and built in minutes.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order of this list is the order in which a query passes the
	// plug-ins; the template comes last, as the answer to names nobody knows.
	dnsserver.Directives = []string{"log", "errors", "health", "ready", "cache", "hosts", "kubernetes", "template"}
}

func main() { coremain.Run() }
