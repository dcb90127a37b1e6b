package deploy_test

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	dockerfile   = "deploy/Dockerfile"
	dockerignore = dockerfile + ".dockerignore"
)

// instruction is one line of a Dockerfile, continuation lines joined.
type instruction struct {
	name  string   // upper case
	flags []string // "--from=build"
	args  string
}

// stage is a FROM and what follows it.
type stage struct {
	name, base   string
	instructions []instruction
}

// flag returns the value of --name=value.
func (i instruction) flag(name string) string {
	for _, f := range i.flags {
		if value, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// parseDockerfile knows the instructions that deploy/Dockerfile uses and no
// others: what is new there has to be thought of here.
func parseDockerfile(t *testing.T, content []byte) []stage {
	t.Helper()
	known := []string{"FROM", "ARG", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "ENTRYPOINT", "CMD"}
	var stages []stage
	var line string
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		head, continues := strings.CutSuffix(text, `\`)
		line += head
		if continues {
			continue
		}
		in := parseInstruction(line)
		line = ""
		if !slices.Contains(known, in.name) {
			t.Fatalf("%s: unknown instruction %s", dockerfile, in.name)
		}
		if in.name == "FROM" {
			base, name, _ := strings.Cut(in.args, " AS ")
			stages = append(stages, stage{name: name, base: base})
			continue
		}
		if len(stages) == 0 {
			t.Fatalf("%s: %s before FROM", dockerfile, in.name)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, in)
	}
	if line != "" {
		t.Fatalf("%s: ends inside of an instruction", dockerfile)
	}
	return stages
}

func parseInstruction(line string) instruction {
	name, rest, _ := strings.Cut(line, " ")
	in := instruction{name: strings.ToUpper(name)}
	for {
		rest = strings.TrimSpace(rest)
		flag, after, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(flag, "--") {
			in.args = rest
			return in
		}
		in.flags = append(in.flags, flag)
		rest = after
	}
}

// all returns the stage's instructions of that name.
func (s stage) all(name string) []instruction {
	var found []instruction
	for _, in := range s.instructions {
		if in.name == name {
			found = append(found, in)
		}
	}
	return found
}

func TestFinalImageIsSmallAndNotRoot(t *testing.T) {
	stages := parseDockerfile(t, read(t, dockerfile))
	last := stages[len(stages)-1]
	if !strings.Contains(last.base, "/distroless/static") || !strings.Contains(last.base, ":nonroot") {
		t.Errorf("final stage is from %s, not from a distroless static nonroot image", last.base)
	}
	if len(last.all("RUN")) > 0 {
		t.Error("final stage runs something, but has no shell")
	}
	users := last.all("USER")
	if len(users) != 1 {
		t.Fatalf("final stage has %d USER instructions, not 1", len(users))
	}
	uid, _, _ := strings.Cut(users[0].args, ":")
	if n, err := strconv.ParseInt(uid, 10, 64); err != nil || n == 0 {
		t.Errorf("USER %s: not a number other than 0, which the kubelet can check", users[0].args)
	}
	binary := last.all("COPY")[0]
	if binary.flag("from") != stages[0].name {
		t.Errorf("the binary comes from stage %q, but the build is %q", binary.flag("from"), stages[0].name)
	}
	destination := strings.Fields(binary.args)[1]
	for _, name := range []string{"ENTRYPOINT", "CMD"} {
		var words []string
		if err := json.Unmarshal([]byte(last.all(name)[0].args), &words); err != nil {
			t.Fatalf("%s %s is in shell form: %v", name, last.all(name)[0].args, err)
		}
		if name == "ENTRYPOINT" && !slices.Equal(words, []string{destination}) {
			t.Errorf("ENTRYPOINT %q, but the binary is %s", words, destination)
		}
	}
}

// The pods run as the user that the image is made for, with the image's entry
// point and the same command.
func TestPodsFitTheImage(t *testing.T) {
	stages := parseDockerfile(t, read(t, dockerfile))
	last := stages[len(stages)-1]
	var command []string
	must(t, json.Unmarshal([]byte(last.all("CMD")[0].args), &command))
	eachKustomization(t, func(t *testing.T, r release) {
		in, main := informdOf(t, r)
		if uid := strconv.FormatInt(*in.template.Spec.SecurityContext.RunAsUser, 10); !strings.HasPrefix(last.all("USER")[0].args, uid+":") {
			t.Errorf("runs as %s, the image as %s", uid, last.all("USER")[0].args)
		}
		if len(main.Command) > 0 {
			t.Errorf("replaces the image's entry point by %q", main.Command)
		}
		if !slices.Equal(main.Args, command) {
			t.Errorf("args %q, the image has %q", main.Args, command)
		}
	})
}

// The compiler in the image must be new enough for go.mod, or the build stops in
// places without a network to fetch another.
func TestImageHasTheCompilerOfTheModule(t *testing.T) {
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "go.mod"))
	if goVersion == nil {
		t.Fatal("go.mod has no go line")
	}
	base := parseDockerfile(t, read(t, dockerfile))[0].base
	if want := "golang:" + string(goVersion[1]) + "-"; !strings.HasPrefix(base, want) {
		t.Errorf("builds with %s, go.mod asks for %s", base, want)
	}
}

// buildContext copies what the Dockerfile copies, and nothing else, as Docker
// would: a file that the build needs and does not get fails here already.
func buildContext(t *testing.T, build stage) string {
	t.Helper()
	ignored := strings.Split(string(read(t, dockerignore)), "\n")
	if !slices.Contains(ignored, "*") {
		t.Errorf("%s: does not begin from nothing", dockerignore)
	}
	dir := t.TempDir()
	for _, in := range build.all("COPY") {
		words := strings.Fields(in.args)
		sources, destination := words[:len(words)-1], words[len(words)-1]
		for _, source := range sources {
			if !slices.Contains(ignored, "!"+source) {
				t.Errorf("COPY %s: %s leaves it out", source, dockerignore)
			}
			from, to := filepath.Join(root, source), filepath.Join(dir, destination)
			if !strings.HasSuffix(source, "/") {
				must(t, os.WriteFile(filepath.Join(to, source), read(t, source), 0o600))
				continue
			}
			must(t, os.CopyFS(to, os.DirFS(from)))
		}
	}
	return dir
}

// There is no Docker where the tests run, so the build stage's command runs on
// the files that the stage would have. The result must not need a dynamic
// linker: there is none in the image.
func TestImageBuildMakesAStaticBinary(t *testing.T) {
	build := parseDockerfile(t, read(t, dockerfile))[0]
	runs := build.all("RUN")
	command := runs[len(runs)-1].args
	dir, out := buildContext(t, build), t.TempDir()
	variables := map[string]string{"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH, "VERSION": "v0.0.0-image"}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.ContainsFunc(build.all("ARG"), func(in instruction) bool {
			declared, _, _ := strings.Cut(in.args, "=")
			return declared == name
		}) {
			t.Errorf("the build uses %s, but does not declare it", name)
		}
	}
	if !strings.Contains(command, "BIN=/out") {
		t.Fatalf("RUN %s: does not say BIN=/out", command)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", strings.Replace(command, "BIN=/out", "BIN='"+out+"'", 1))
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		// Under `make test`, an outer make's own settings are not for this one.
		if name, _, _ := strings.Cut(variable, "="); name != "MAKEFLAGS" && name != "MAKELEVEL" && name != "VERSION" && name != "BIN" {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	for name, value := range variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	binary := filepath.Join(out, "informd")
	checkStatic(t, binary)
	checkVersion(t, binary, variables["VERSION"])
	checkSize(t, binary)
}

// checkSize fails if the binary has grown past its limit. A package that calls methods by
// name, as templates do, adds 8 MiB at once.
func checkSize(t *testing.T, binary string) {
	t.Helper()
	const limit = 40 << 20
	info, err := os.Stat(binary)
	must(t, err)
	if info.Size() > limit {
		t.Errorf("the binary has %d bytes, want at most %d", info.Size(), limit)
	}
}

func checkStatic(t *testing.T, binary string) {
	t.Helper()
	file, err := elf.Open(binary)
	must(t, err)
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic linker")
		}
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the binary is linked to %v (%v)", libraries, err)
	}
}

// checkVersion runs the binary where it can run.
func checkVersion(t *testing.T, binary, version string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	output, err := exec.CommandContext(t.Context(), binary, "version").CombinedOutput()
	if err != nil {
		t.Fatalf("informd version: %v\n%s", err, output)
	}
	if !strings.Contains(string(output), version) {
		t.Errorf("informd version: %q does not have %s", output, version)
	}
}
