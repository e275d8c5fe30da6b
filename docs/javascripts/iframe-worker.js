// Browsers start no Worker for a page that was opened as a file. The search of the site asks for one, so this class, of the
// same interface, runs the script of the worker in a hidden frame instead.
if (location.protocol === "file:") {
  const prologue = `
    var answer = (data) => frameElement.dispatchEvent(new parent.MessageEvent("message", { data }));
    self.postMessage = answer;
    self.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded, failed) => {
      const script = document.createElement("script");
      script.src = url;
      script.onload = loaded;
      script.onerror = () => failed(new Error("cannot load " + url));
      document.body.append(script);
    })), Promise.resolve());`;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const source = new URL(url, document.baseURI).href;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      frame.addEventListener("message", (event) => {
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      const page = frame.contentDocument;
      page.open();
      page.write(`<base href="${source}"><body><script>${prologue}<\/script><script src="${source}"><\/script></body>`);
      page.close();
      this.frame = frame;
      this.ready = new Promise((loaded) => frame.contentWindow.addEventListener("load", loaded));
    }

    postMessage(data) {
      const target = this.frame.contentWindow;
      this.ready.then(() => target.dispatchEvent(new target.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
