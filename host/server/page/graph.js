// The team as a graph, with coordinates from the server, and what each role does now.

import { html, useMemo, useState } from "./dom.js";
import { runPath } from "./api.js";
import { money, plural } from "./figures.js";
import { selectRole } from "./router.js";
import { selectedRole, useThrottled } from "./run_data.js";
import { cut } from "./texts.js";
import { hasText } from "./visible.js";
import { Search, Table, useGet, whenLoaded } from "./widgets.js";

const REDRAW_MS = 300;
const SEARCHED_ABOVE = 60;
const MARGIN = 12;
/** A wider graph has the list of roles below it: beside it, its texts would be too small. */
const BESIDE_LIST = 560;

export function Graph({ data, run }) {
  const loaded = useGet(runPath(run, "graph"));
  useThrottled(data.version, REDRAW_MS);
  const [text, setText] = useState("");
  const [isFitted, setFitted] = useState(true);
  const { model } = data;
  return whenLoaded(loaded, (graph) => {
    const nodes = graph.nodes ?? [];
    const common = { nodes, model, chosen: selectedRole(model), words: text, roleOf: withFaults(model) };
    return html`<section class="graph-part" aria-label="Team">
      <div class="part-head"><h2>Team</h2><div class="part-controls">${nodes.length > SEARCHED_ABOVE && html`<${Search} className="short" label="Find a role" hint="Find a role" value=${text} take=${setText} />`}
        <button class="small" aria-pressed=${!isFitted} onClick=${() => setFitted(!isFitted)}>${isFitted ? "Full size" : "Fit"}</button></div></div>
      <div class=${graph.width > BESIDE_LIST ? "graph-pair stacked" : "graph-pair"}><div class=${isFitted ? "graph fitted" : "graph"}><${Drawing} ...${common} graph=${graph} budget=${run.budget} /></div>
        <${RoleList} ...${common} /></div>
    </section>`;
  }, 5);
}

const nameOf = (node) => String(node.label);

function activity(role) {
  if (!role) return ["idle", "", ""];
  if (role.open.size) return ["live", "●", [...new Set([...role.open].map((attempt) => attempt.action))].slice(0, 2).join(", ")];
  if (role.asked > 0) return ["held", "?", "asks"];
  if (role.isFailed) return ["bad", "✕", "failed"];
  return role.attempts ? ["ok", "✓", role.lastAction] : ["idle", "", ""];
}

function withFaults(model) {
  const failed = new Set([...model.faults.values()].map((fault) => fault.event.role));
  return (name) => {
    const role = model.roles.get(name);
    return role && { ...role, isFailed: failed.has(name) };
  };
}

function Drawing({ graph, nodes, model, chosen, words, roleOf, budget }) {
  const byId = useMemo(() => new Map(nodes.map((node) => [node.id, node])), [nodes]);
  const width = (graph.width || 100) + 2 * MARGIN;
  const height = (graph.height || 100) + 2 * MARGIN;
  const last = model.lastEdge;
  return html`<svg viewBox=${`${-MARGIN} ${-MARGIN} ${width} ${height}`} width=${width} height=${height} aria-hidden="true">
    <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${(graph.edges ?? []).map((edge) => {
      const from = nameOf(byId.get(edge.from));
      const to = nameOf(byId.get(edge.to));
      const sent = model.edges.get(`${from}\u0000${to}`) ?? 0;
      const isLast = last && last.from === from && last.to === to;
      return html`<${Edge} key=${`${edge.from}-${edge.to}`} edge=${edge} sent=${sent} used=${isLast ? last.n : 0} />`;
    })}
    ${nodes.map((node) => html`<${Node} key=${node.id} node=${node} role=${roleOf(nameOf(node))} budget=${node.state?.budget ?? budget} items=${model.expansionOf(nameOf(node))?.of} isChosen=${chosen === nameOf(node)} isDimmed=${!hasText(nameOf(node), words)} />`)}
  </svg>`;
}

function Edge({ edge, sent, used }) {
  const points = edge.points ?? [];
  if (points.length < 2) return null;
  const d = pathOf(points);
  const middle = points.length > 2 ? points[Math.floor(points.length / 2)] : [(points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2];
  const label = [edge.label ?? []].flat().join(", ");
  return html`<g class=${`edge${sent ? " used" : ""}`}><path d=${d} stroke-width=${sent ? Math.min(5, 1 + Math.log2(1 + sent) / 2) : 1} marker-end="url(#arrow)" />
    ${used > 0 && html`<path key=${used} class="pulse-once" d=${d} />`}
    ${label && html`<text x=${middle[0]} y=${middle[1] + 3} text-anchor="middle">${cut(label, 40)}</text>`}</g>`;
}

/** A curve that leaves and reaches each point in the direction in which the graph is laid out. */
function pathOf(points) {
  const [first] = points;
  const last = points.at(-1);
  const isDown = Math.abs(last[1] - first[1]) >= Math.abs(last[0] - first[0]) || points.length > 2;
  let d = `M${first[0]} ${first[1]}`;
  for (let at = 1; at < points.length; at += 1) {
    const [fromX, fromY] = points[at - 1];
    const [x, y] = points[at];
    d += isDown ? `C${fromX} ${(fromY + y) / 2} ${x} ${(fromY + y) / 2} ${x} ${y}` : `C${(fromX + x) / 2} ${fromY} ${(fromX + x) / 2} ${y} ${x} ${y}`;
  }
  return d;
}

const LINE = 15;

/** The lines below the name of a node: its remark and its actions, as many as fit. */
function linesOf(node, role, room, height) {
  const atWork = new Set([...(role?.open ?? [])].map((attempt) => attempt.action));
  const actions = (node.actions ?? []).map((action) => ({ text: `${action.approval ? "? " : ""}${action.name}`, isOpen: atWork.has(action.name) }));
  const all = [...(node.note ? [{ text: node.note }] : []), ...actions];
  if (!all.length && role?.lastAction) all.push({ text: role.lastAction, isOpen: role.open.size > 0 });
  return all.slice(0, Math.max(0, Math.floor((height - 24) / LINE))).map((line) => ({ ...line, text: cut(line.text, room) }));
}

function Node({ node, role, budget, items, isChosen, isDimmed }) {
  const [kind, glyph, words] = activity(role);
  const width = node.width || 120;
  const height = node.height || 44;
  const lines = linesOf(node, role, Math.floor((width - 12) / 5.6), height);
  const signs = `${items ? `×${items} ` : ""}${role?.mail ? `✉${role.mail} ` : ""}${glyph}`;
  const top = lines.length ? 19 : height / 2 + 4;
  const nameRoom = Math.floor((width - 14 - signs.length * 9) / 7.2);
  const round = node.kind === "join" || node.kind === "start" ? height / 2 : 8;
  const share = budget > 0 && role?.spent > 0 ? Math.min(1, role.spent / budget) : 0;
  return html`<g class=${`node ${kind}${isChosen ? " chosen" : ""}${isDimmed ? " dim" : ""}`} transform=${`translate(${node.x} ${node.y})`} onClick=${() => selectRole(nameOf(node))}>
    ${items > 1 && html`<rect x="6" y="-6" width=${width} height=${height} rx=${round} /><rect x="3" y="-3" width=${width} height=${height} rx=${round} />`}
    <rect width=${width} height=${height} rx=${round} /><title>${nameOf(node)}${words && `: ${words}`}${share > 0 && `, ${money(role.spent)} of ${money(budget)}`}</title>
    ${share > 0 && html`<rect class="ring" x="-4" y="-4" width=${width + 8} height=${height + 8} rx=${round + 4} pathLength="1" stroke-dasharray=${`${share} 1`} />`}
    ${glyph || lines.length ? html`<text class="node-name" x="8" y=${top}>${cut(nameOf(node), nameRoom)}</text>` : html`<text class="node-name" x=${width / 2} y=${top} text-anchor="middle">${cut(nameOf(node), nameRoom)}</text>`}
    ${signs && html`<text class=${`node-glyph${kind === "live" ? " pulse" : ""}`} x=${width - 7} y=${top} text-anchor="end">${signs}</text>`}
    ${lines.map((line, at) => html`<text class=${line.isOpen ? "node-note open" : "node-note"} x="8" y=${top + 16 + at * LINE}>${line.text}</text>`)}
  </g>`;
}

function RoleList({ nodes, model, chosen, words, roleOf }) {
  const names = nodes.filter((node) => ["role", "human", undefined].includes(node.kind)).map(nameOf);
  const all = [...new Set([...names, ...model.roles.keys()])].filter((name) => hasText(name, words));
  return html`<div class="role-list" role="region" aria-label="Roles"><${Table} heads=${["Role", "Now", "#Attempts", "#Cost"]}>${all.slice(0, 200).map((name) => {
    const role = roleOf(name);
    const [kind, glyph, doing] = activity(role);
    return html`<tr key=${name} class=${chosen === name ? "current" : ""}><td><button class="link" aria-pressed=${chosen === name} onClick=${() => selectRole(name)}>${name}</button></td>
      <td class="one-line" title=${doing}>${glyph && html`<span class=${`mark ${kind}`} aria-hidden="true">${glyph}</span>\u00a0`}${kind === "live" && html`<span class="sr">at work: </span>`}${doing}${role?.mail > 0 && html` <span class="note" title=${plural(role.mail, "message")}><span aria-hidden="true">✉ ${role.mail}</span><span class="sr">${plural(role.mail, "message")}</span></span>`}</td>
      <td class="num">${role?.attempts ?? 0}</td><td class="num">${role?.spent > 0 && money(role.spent)}</td></tr>`;
  })}<//></div>`;
}
