// An event in words, for lists.

import { jsonLine } from "./texts.js";

const HIDDEN_FIELDS = new Set(["n", "time", "kind"]);

export function summary(event) {
  const { role, action, attempt, step } = event;
  const who = role === undefined ? "" : `${role}${action ? `.${action}` : ""}`;
  switch (event.kind) {
    case "message-routed": return `${event.from || "from outside"} → ${(event.to ?? []).join(", ") || "nobody"} (${event.cause_by})`;
    case "action-started": return `${who}, attempt ${attempt}`;
    case "action-finished": return `${who}: ${jsonLine(event.output?.content ?? "", 140)}`;
    case "action-failed": return `${who}: ${event.fault}, ${jsonLine(event.message ?? "", 140)}`;
    case "host-call": return `${who}: ${event.call} ${jsonLine(event.what ?? "", 120)}${event.source === "recorded" ? " (recorded)" : ""}`;
    case "request-opened": return `${who}: ${jsonLine(event.question ?? "", 140)}`;
    case "request-answered": return `${role ?? ""}: ${jsonLine(event.answer, 120)}`;
    case "files-written": return `${who}: ${(event.files ?? []).map((file) => file.path).join(", ")}`;
    case "step-started": return `step ${step}`;
    case "step-committed": return `step ${step}, checkpoint ${event.checkpoint}`;
    case "run-ended": return String(event.status);
    case "turn": return `${role}, turn ${event.turn}: ${event.finish}, ${(event.calls ?? []).map((one) => one.tool).join(", ")}`;
    default: {
      const rest = Object.entries(event).filter(([name]) => !HIDDEN_FIELDS.has(name));
      return rest.map(([name, value]) => `${name}: ${jsonLine(value, 60)}`).join(", ");
    }
  }
}
