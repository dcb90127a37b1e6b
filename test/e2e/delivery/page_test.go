package delivery_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/webpage"
)

// markup is a value that must show as text: markup that would run, a sequence that a terminal
// obeys, and a character that reverses the text behind it.
const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>` + "\u202e\u001b[31m"

// pageToken is as openssl rand -base64 prints one.
const pageToken = "YSt0b2tlbi9mb3IrdGhlL3BhZ2U="

// browser is a headless Chromium with one page.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the page in it

	mu sync.Mutex
	// complaints are what the page wrote to the console, refusals of the policy among them.
	complaints []string
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	options, err := webpage.Browser()
	e2e.Must(t, err)
	allocator, cancelAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancelAllocator)
	ctx, cancel := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: ctx}
	// The browser lives as long as the context of its first action.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		cancel()
		t.Fatalf("start the browser: %v", err)
	}
	messages := chromedp.Console(ctx)
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, m.String())
			b.mu.Unlock()
		}
	}()
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, e2e.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("browser: %v; the console has %q", err, b.complaints)
	}
}

// eval returns the value of an expression of JavaScript as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, e2e.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// eventually waits until an expression of JavaScript is true.
func (b *browser) eventually(expression string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the page has\n%s", b.eval("document.body.innerText"))
		}
	}()
	e2e.Eventually(b.t, expression, func() bool { return b.eval("Boolean("+expression+")") == "true" })
}

// picture keeps a picture of the page in the folder that $SCREENSHOTS names.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	e2e.Must(b.t, err)
	e2e.Must(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// harmless checks what must hold of every view.
func (b *browser) harmless(view string) {
	b.t.Helper()
	if got := b.eval("document.title + ' ' + document.querySelectorAll('main img, main script').length"); got != "informd 0" {
		b.t.Errorf("%s: the content of an object became a part of the page: %s", view, got)
	}
	if got := b.eval("document.documentElement.outerHTML"); strings.Contains(got, e2e.Canary) || strings.Contains(got, "canary-value") {
		b.t.Errorf("%s: the value of a Secret shows", view)
	}
	if got := b.eval("document.body.innerText"); strings.ContainsAny(got, "\u202e\u001b") {
		b.t.Errorf("%s: characters that hide or reorder text are not escaped", view)
	}
}

// TestPage uses the page as a person does.
func TestPage(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(c.RESTConfig())
	tokenFile := filepath.Join(t.TempDir(), "token")
	e2e.Must(t, os.WriteFile(tokenFile, []byte(pageToken+"\n"), 0o600))
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- configmaps\n- secrets\n- {resource: widgets, group: absent.example.com}", Journal: e2e.LogJournal,
		Sinks: "- {name: dead, type: webhook, url: 'http://127.0.0.1:9/', allowHTTP: true}", Admin: fmt.Sprintf(", tokenFile: %q", tokenFile),
	})
	d.Start()
	d.WaitForSync(2)
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	write := func(n int) {
		t.Helper()
		patch := fmt.Sprintf(`{"data":{"n":"%d"}}`, n)
		if _, err := maps.Patch(t.Context(), "shown", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	object := func(kind, name string, data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}, "data": data}}
	}
	if _, err := maps.Create(t.Context(), object("ConfigMap", "shown", map[string]any{"n": "0", "text": markup}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
	if _, err := secrets.Create(t.Context(), object("Secret", "hidden", map[string]any{"password": e2e.Canary}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	b := startBrowser(t)
	b.fiveOClock()
	b.do(chromedp.Navigate("http://" + d.Admin + "/"))
	b.eventually("document.querySelectorAll('#targets tr').length == 3 && document.querySelectorAll('#sinks tr').length == 2")
	b.eventually("document.getElementById('sinks').innerText.includes('retrying')")
	b.harmless("overview")
	b.picture("overview")
	b.do(chromedp.SendKeys("#target-filter", "configmaps"))
	b.eventually("document.querySelectorAll('#targets tr').length == 1")

	// Objects need the token.
	b.do(chromedp.Click("nav a[href='#tail']"), chromedp.WaitVisible("#tail"), chromedp.Click("#tail-button"), chromedp.WaitVisible("#access"))
	b.do(chromedp.SendKeys("#token", pageToken+kb.Enter), chromedp.WaitNotVisible("#access"))
	b.do(chromedp.SendKeys("#tail-form [name=condition]", "object."+kb.Enter))
	b.eventually("document.getElementById('tail-state').innerText.includes('condition, line 1')")
	b.eval("document.querySelector('#tail-form [name=condition]').value = ''")
	b.do(chromedp.Click("#tail-button"))
	b.eventually("document.getElementById('tail-state').innerText.includes('Waiting')")
	write(1)
	if _, err := secrets.Patch(t.Context(), "hidden", types.MergePatchType, []byte(`{"metadata":{"labels":{"n":"1"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.eventually("document.querySelectorAll('#events li').length >= 2")
	b.eval("document.querySelectorAll('#events summary').forEach((s) => s.click())")
	b.eventually("document.querySelectorAll('#events pre').length >= 2")
	// In the browser's own zone, which the text names.
	b.eventually("[...document.querySelectorAll('#events time')]" +
		".every((e) => /^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d \\S+$/.test(e.innerText))")
	b.harmless("tail")
	b.picture("tail")

	// The history, by the link of an event.
	write(2)
	b.eval("[...document.querySelectorAll('#events a')].find((a) => a.hash.includes('shown')).click()")
	b.eventually("document.querySelectorAll('#line > li').length == 3 && document.querySelectorAll('#line ins').length >= 2 && document.querySelectorAll('#line del').length >= 2")
	if got := b.eval("[...document.querySelectorAll('#line .changes')].map((e) => e.innerText).join('|')"); !strings.Contains(got, `data.n`) || !strings.Contains(got, `"1"`) || !strings.Contains(got, `"2"`) {
		t.Errorf("the history shows the changes %q", got)
	}
	b.eval("document.querySelectorAll('#line summary').forEach((s) => s.click())")
	b.harmless("history")
	b.picture("history")
	b.do(chromedp.Navigate("http://" + d.Admin + "/#history=secrets/default/hidden"))
	b.eventually("document.querySelectorAll('#line > li').length == 2")
	b.eval("document.querySelectorAll('#line summary').forEach((s) => s.click())")
	b.harmless("history of a Secret")

	b.do(chromedp.Click("nav a[href='#problems']"), chromedp.WaitVisible("#problems"))
	b.eventually("document.getElementById('problems-state').innerText == '' && document.getElementById('unhealthy').innerText.includes('absent.example.com')")
	b.harmless("problems")
	b.picture("problems")
	b.narrowAndDark(d.Admin)
	b.keyboard(d.Admin)
	b.tokenLink(d.Admin)

	// The states come back by themselves after a restart.
	d.Kill()
	b.eventually("document.getElementById('live').innerText == 'not connected'")
	d.Start()
	b.eventually("document.getElementById('live').innerText == 'live'")
	d.Kill() // the end would wait for the dead sink
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complaints {
		// The browser itself notes answers that are errors, and a connection that is gone.
		if !strings.Contains(text, "Failed to load resource") {
			t.Errorf("the page complains: %s", text)
		}
	}
}

// narrowAndDark looks at the page on a phone, in dark mode.
func (b *browser) narrowAndDark(admin string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile), webpage.Scheme("dark"))
	for _, view := range []string{"overview", "tail", "history=configmaps/default/shown", "problems"} {
		b.do(chromedp.Navigate("http://" + admin + "/#" + view))
		b.eventually("document.getElementById('live').innerText == 'live'")
		if got := b.eval("Math.max(0, document.documentElement.scrollWidth - innerWidth)"); got != "0" {
			b.t.Errorf("%s: on a narrow screen the page is %s pixels too wide", view, got)
		}
		b.picture("narrow-" + strings.Split(view, "=")[0])
	}
	if got := b.eval("getComputedStyle(document.body).backgroundColor"); got == "rgb(246, 247, 249)" {
		b.t.Error("there is no dark mode")
	}
	b.do(chromedp.ResetViewport(), webpage.Scheme("light"))
}

// tokenLink opens a link with the token in a new tab's session, and reads a history with it.
func (b *browser) tokenLink(admin string) {
	b.t.Helper()
	b.eval("sessionStorage.clear()")
	b.do(chromedp.Navigate("http://"+admin+"/#token="+pageToken), chromedp.Reload(), chromedp.WaitVisible("#overview"))
	if got := b.eval("location.hash"); got != "#overview" {
		b.t.Errorf("the token stays in the address: %s", got)
	}
	b.do(chromedp.Navigate("http://" + admin + "/#history=configmaps/default/shown"))
	b.eventually("document.querySelectorAll('#line > li').length == 3")
}

// keyboard reaches each view without a mouse.
func (b *browser) keyboard(admin string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+admin+"/#overview"), chromedp.Reload(), chromedp.WaitVisible("#overview"))
	// The first stop skips the navigation, and stays in the view.
	b.do(chromedp.Click("nav a[href='#problems']"), chromedp.WaitVisible("#problems"))
	b.do(chromedp.Focus(".skip"), chromedp.KeyEvent(kb.Enter))
	b.eventually("document.activeElement.id == 'main' && !document.getElementById('problems').hidden")
	b.do(chromedp.Navigate("http://"+admin+"/#overview"), chromedp.Reload(), chromedp.WaitVisible("#overview"))
	var stops []string
	for range 12 {
		b.do(chromedp.KeyEvent(kb.Tab))
		stops = append(stops, b.eval("document.activeElement.hash || document.activeElement.id || document.activeElement.tagName"))
		if stops[len(stops)-1] == "#history" {
			b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#history"))
			return
		}
	}
	b.t.Errorf("the keyboard reaches %q, and no link to the history", stops)
}

// fiveOClock moves the browser to a zone where it is past five in the morning: hours have two digits there, too.
func (b *browser) fiveOClock() {
	b.t.Helper()
	west := time.Now().UTC().Hour() - 5 // in "Etc/GMT+3" the clock is three hours behind
	if west > 12 {
		west -= 24
	}
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: fmt.Sprintf("Etc/GMT%+d", west)})
		return err
	}))
}
