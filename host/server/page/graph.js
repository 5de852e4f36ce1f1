// The team as a graph, with coordinates from the server, and what each role does now.

import { html, useMemo, useState } from "./dom.js";
import { call, runPath } from "./api.js";
import { money, plural } from "./figures.js";
import { selectedRole, selectRole } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { ProblemView, Search, Skeleton, useLoaded } from "./widgets.js";

const REDRAW_MS = 300;
const SEARCHED_ABOVE = 60;
const MARGIN = 12;

export function Graph({ data, run }) {
  const [graph, problem, again] = useLoaded((signal) => call(runPath(run.name, "graph"), { signal }), [run.id]);
  useThrottled(data.version, REDRAW_MS);
  const [text, setText] = useState("");
  const [isFitted, setFitted] = useState(true);
  const { model } = data;
  const chosen = selectedRole(model);
  if (problem) return html`<${ProblemView} problem=${problem} retry=${again} />`;
  if (!graph) return html`<${Skeleton} lines=${5} />`;
  const nodes = graph.nodes ?? [];
  const isLarge = nodes.length > SEARCHED_ABOVE;
  const words = text.toLowerCase();
  return html`<section class="graph-part" aria-label="Team">
    <div class="part-head"><h2>Team</h2><div class="part-controls">${isLarge && html`<${Search} className="short" label="Find a role" hint="Find a role" value=${text} take=${setText} />`}
      <button class="small" aria-pressed=${!isFitted} onClick=${() => setFitted(!isFitted)}>Full size</button></div></div>
    <div class="graph-pair"><div class=${isFitted ? "graph fitted" : "graph"}><${Drawing} ...${{ graph, nodes, model, chosen, words }} /></div>
      <${RoleList} ...${{ nodes, model, chosen, words }} /></div>
  </section>`;
}

const nameOf = (node) => String(node.label);

function activity(role) {
  if (!role) return ["idle", "", ""];
  if (role.open.size) return ["live", "●", [...new Set([...role.open].map((attempt) => attempt.action))].slice(0, 2).join(", ")];
  if (role.asked > 0) return ["held", "?", "waits for an answer"];
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

function Drawing({ graph, nodes, model, chosen, words }) {
  const roleOf = withFaults(model);
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
    ${nodes.map((node) => html`<${Node} key=${node.id} node=${node} role=${roleOf(nameOf(node))} isChosen=${chosen === nameOf(node)} isDimmed=${words !== "" && !nameOf(node).toLowerCase().includes(words)} />`)}
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

/** A curve through the points, which leaves and reaches each of them in the direction in which the graph is laid out. */
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

const cut = (text, length) => (text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text);

function Node({ node, role, isChosen, isDimmed }) {
  const [kind, glyph, words] = activity(role);
  const width = node.width || 120;
  const height = node.height || 44;
  const lines = linesOf(node, role, Math.floor((width - 12) / 5.6), height);
  const signs = `${role?.mail ? `✉${role.mail} ` : ""}${glyph}`;
  const top = lines.length ? 19 : height / 2 + 4;
  const nameRoom = Math.floor((width - 14 - signs.length * 9) / 7.2);
  return html`<g class=${`node ${kind}${isChosen ? " chosen" : ""}${isDimmed ? " dim" : ""}`} transform=${`translate(${node.x} ${node.y})`} onClick=${() => selectRole(nameOf(node))}>
    <rect width=${width} height=${height} rx=${node.kind === "join" || node.kind === "start" ? height / 2 : 8} /><title>${nameOf(node)}${words ? `: ${words}` : ""}</title>
    ${glyph || lines.length ? html`<text class="node-name" x="8" y=${top}>${cut(nameOf(node), nameRoom)}</text>` : html`<text class="node-name" x=${width / 2} y=${top} text-anchor="middle">${cut(nameOf(node), nameRoom)}</text>`}
    ${signs && html`<text class=${`node-glyph${kind === "live" ? " pulse" : ""}`} x=${width - 7} y=${top} text-anchor="end">${signs}</text>`}
    ${lines.map((line, at) => html`<text class=${line.isOpen ? "node-note open" : "node-note"} x="8" y=${top + 16 + at * LINE}>${line.text}</text>`)}
  </g>`;
}

function RoleList({ nodes, model, chosen, words }) {
  const roleOf = withFaults(model);
  const names = nodes.filter((node) => ["role", "human", undefined].includes(node.kind)).map(nameOf);
  const all = [...new Set([...names, ...model.roles.keys()])].filter((name) => !words || name.toLowerCase().includes(words));
  return html`<div class="role-list scroll" tabindex="0" role="region" aria-label="Roles"><table><thead><tr><th>Role</th><th>Now</th><th class="num">Attempts</th><th class="num">Cost</th></tr></thead><tbody>${all.slice(0, 200).map((name) => {
    const role = roleOf(name);
    const [kind, glyph, doing] = activity(role);
    return html`<tr key=${name} class=${chosen === name ? "current" : ""}><td><button class="link" aria-pressed=${chosen === name} onClick=${() => selectRole(name)}>${name}</button></td>
      <td>${glyph && html`<span class=${`mark ${kind}`} aria-hidden="true">${glyph}</span>\u00a0`}${kind === "live" ? `at work: ${doing}` : doing}${role?.mail ? html` <span class="note">${plural(role.mail, "message")}</span>` : ""}</td>
      <td class="num">${role?.attempts ?? 0}</td><td class="num">${role?.spent ? money(role.spent) : ""}</td></tr>`;
  })}</tbody></table></div>`;
}
