package informd_test

import (
	"os"
	"testing"

	"github.com/informd/informd/pkg/informd"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// TestMain makes the test binary a program with a sink type of its own, if it is asked to.
func TestMain(m *testing.M) {
	switch os.Getenv("INFORMD_TEST_PROGRAM") {
	case "greeter":
		os.Exit(informd.Main(informd.Options{Name: "greeter", Version: "1.0.0", Drivers: append(drivers.All(), driver())}))
	case "alone":
		os.Exit(informd.Main(informd.Options{Drivers: []sink.Driver{driver()}}))
	case "informd":
		os.Exit(informd.Main(informd.Options{}))
	}
	os.Exit(m.Run())
}
