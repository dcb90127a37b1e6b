package delivery_test

import (
	"os"
	"testing"

	"github.com/informd/informd/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }
