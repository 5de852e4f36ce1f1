// Runs before all modules, while they are fetched: sets the colours, so that they do not change after the first paint, begins
// the requests of the first screen, and decides when the modules of views are fetched.

{
  const kept = (area, name) => {
    try {
      return JSON.parse(window[area].getItem(`strata.${name}`));
    } catch {
      return null;
    }
  };
  const theme = kept("localStorage", "theme");
  if (theme) document.documentElement.dataset.theme = theme;

  // Those of the view that is opened at once, all others a while after it is shown.
  const [, view, run] = location.pathname.split("/");
  const wanted = view ? [view === "runs" && run ? "run" : view] : ["needs", "runs"];
  const fetchLater = (isWanted) => {
    for (const link of document.querySelectorAll('link[rel="later"]')) if (isWanted(link.dataset.for?.split(" ") ?? [])) link.rel = "modulepreload";
  };
  fetchLater((views) => views.some((one) => wanted.includes(one)));
  addEventListener("load", () => setTimeout(() => fetchLater(() => true), 500));

  /** Responses that are under way, by their paths, for `api.js`. */
  window.early = new Map();
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? kept("sessionStorage", "token");
  if (token) {
    for (const path of ["/v1/token", "/v1/requests?limit=500", "/v1/runs?status=failed&status=stalled&status=out-of-budget&status=step-limit&status=in-doubt&limit=500"]) {
      const answer = fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit", redirect: "error" });
      // It is read at once, so that nothing is waited for when the modules are there.
      const response = answer.then(async (one) => new Response(await one.text(), one));
      // Whoever takes it handles the failure.
      response.catch(() => {});
      window.early.set(path, response);
    }
  }
}
