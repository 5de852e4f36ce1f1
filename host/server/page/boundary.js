// A view that fails must not take the rest of the page with it.

import { Component, html } from "./dom.js";
import { ProblemView } from "./widgets.js";

/** Shows its children, or why they cannot be shown. Another `of` begins anew. */
export class Boundary extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error, of: this.props.of });
  }

  render({ children, of }, { error, of: failed }) {
    if (!error || failed !== of) return children;
    const problem = { title: "The page cannot show this", detail: String(error?.message ?? error) };
    return html`<${ProblemView} problem=${problem} retry=${() => this.setState({ error: null })} />`;
  }
}
