// Browsers start no workers for pages that are opened as files, and the search is one: there it runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      const load = source => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = source
        script.onload = done
        script.onerror = failed
        inside.document.body.append(script)
      })
      // The search asks for languages and its index by importScripts, one after the other.
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(url)
    }
    postMessage(data) {
      this.ready = this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
