// Runs before all modules, while they are fetched: sets the colours, so that they do not change after the first paint, begins
// the requests of the first screen, and decides when the modules that it does not need are fetched.

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

  /** Responses that are under way, by their paths, for `api.js`. */
  window.early = new Map();
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? kept("sessionStorage", "token");
  if (token) {
    for (const path of ["/v1/token", "/v1/requests?limit=500", "/v1/runs?status=failed&status=stalled&status=out-of-budget&status=step-limit&status=in-doubt&limit=500"]) {
      const response = fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit", redirect: "error" });
      // Whoever takes it handles the failure.
      response.catch(() => {});
      window.early.set(path, response);
    }
  }

  const fetchLater = () => {
    for (const link of document.querySelectorAll('link[rel="later"]')) link.rel = "modulepreload";
  };
  // Other addresses need them at once.
  if (/^\/(needs|runs)?$/.test(location.pathname)) addEventListener("load", () => setTimeout(fetchLater, 500));
  else addEventListener("DOMContentLoaded", fetchLater);
}
