// The team as a graph, with coordinates from the server, and what each role does now.

import { html, useMemo, useState } from "./dom.js";
import { call, runPath } from "./api.js";
import { money, plural } from "./figures.js";
import { selectedRole, selectRole } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { ProblemView, Skeleton, useLoaded } from "./widgets.js";

const REDRAW_MS = 300;
/** Larger graphs have a search field. */
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
    <div class="part-head"><h2>Team</h2><div class="part-controls">${isLarge && html`<input type="search" class="short" aria-label="Find a role" placeholder="Find a role" value=${text} onInput=${(event) => setText(event.target.value)} />`}
      <button type="button" class="small" aria-pressed=${!isFitted} onClick=${() => setFitted(!isFitted)}>Full size</button></div></div>
    <div class="graph-pair"><div class=${isFitted ? "graph fitted" : "graph"}><${Drawing} ...${{ graph, nodes, model, chosen, words }} /></div>
      <${RoleList} ...${{ nodes, model, chosen, words }} /></div>
  </section>`;
}

const nameOf = (node) => String(node.name ?? node.label ?? node.id);

/** What a node does now: `[kind, glyph, words]`. */
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
      const from = nameOf(byId.get(edge.from) ?? { id: edge.from });
      const to = nameOf(byId.get(edge.to) ?? { id: edge.to });
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
  const middle = points[Math.floor(points.length / 2)];
  return html`<g class=${`edge${sent ? " used" : ""}`}><path d=${d} stroke-width=${sent ? Math.min(5, 1 + Math.log2(1 + sent) / 2) : 1} marker-end="url(#arrow)" />
    ${used > 0 && html`<path key=${used} class="pulse-once" d=${d} />`}
    ${edge.label && html`<text x=${middle[0]} y=${middle[1] - 4} text-anchor="middle">${String(edge.label).slice(0, 40)}</text>`}</g>`;
}

/** A curve through the points if they are those of one, a line otherwise. */
function pathOf(points) {
  const [first, ...rest] = points;
  if (rest.length % 3 === 0) {
    let d = `M${first[0]} ${first[1]}`;
    for (let at = 0; at < rest.length; at += 3) d += `C${rest.slice(at, at + 3).map((point) => point.join(" ")).join(" ")}`;
    return d;
  }
  return `M${points.map((point) => point.join(" ")).join("L")}`;
}

function Node({ node, role, isChosen, isDimmed }) {
  const [kind, glyph, words] = activity(role);
  const width = node.width || 120;
  const height = node.height || 44;
  const room = Math.max(4, Math.floor((width - 20) / 7.4));
  const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
  const select = () => selectRole(nameOf(node));
  const isTall = height >= 40;
  return html`<g class=${`node ${node.kind ?? ""} ${kind}${isChosen ? " chosen" : ""}${isDimmed ? " dim" : ""}`} transform=${`translate(${node.x} ${node.y})`} onClick=${select}>
    <rect width=${width} height=${height} rx=${node.kind === "join" || node.kind === "start" ? height / 2 : 8} /><title>${nameOf(node)}${words ? `: ${words}` : ""}</title>
    <text class="node-name" x="10" y=${isTall && role ? 18 : height / 2 + 4}>${cut(nameOf(node), room - (glyph ? 2 : 0))}</text>
    ${glyph && html`<text class=${`node-glyph${kind === "live" ? " pulse" : ""}`} x=${width - 10} y=${isTall ? 18 : height / 2 + 4} text-anchor="end">${glyph}</text>`}
    ${isTall && role && html`<text class="node-note" x="10" y=${Math.min(height - 8, 34)}>${cut([words, role.mail ? `✉ ${role.mail}` : "", role.spent ? money(role.spent) : ""].filter(Boolean).join(" · "), Math.floor((width - 16) / 6))}</text>`}
  </g>`;
}

/** The same as the drawing, as a list. */
function RoleList({ nodes, model, chosen, words }) {
  const roleOf = withFaults(model);
  const names = nodes.filter((node) => ["role", "human", undefined].includes(node.kind)).map(nameOf);
  const all = [...new Set([...names, ...model.roles.keys()])].filter((name) => !words || name.toLowerCase().includes(words));
  return html`<div class="role-list scroll" tabindex="0" role="region" aria-label="Roles"><table><thead><tr><th>Role</th><th>Now</th><th class="num">Attempts</th><th class="num">Cost</th></tr></thead><tbody>${all.slice(0, 200).map((name) => {
    const role = roleOf(name);
    const [kind, glyph, doing] = activity(role);
    return html`<tr key=${name} class=${chosen === name ? "current" : ""}><td><button type="button" class="link" aria-pressed=${chosen === name} onClick=${() => selectRole(name)}>${name}</button></td>
      <td>${glyph && html`<span class=${`mark ${kind}`} aria-hidden="true">${glyph}</span> `}${kind === "live" ? `at work: ${doing}` : doing}${role?.mail ? html` <span class="note">${plural(role.mail, "message")}</span>` : ""}</td>
      <td class="num">${role?.attempts ?? 0}</td><td class="num">${role?.spent ? money(role.spent) : ""}</td></tr>`;
  })}</tbody></table></div>`;
}
