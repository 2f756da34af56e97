// Takes the place of a worker that somebody else has left in the browser: goes, and lets the page be loaded anew.
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(leave()));

async function leave() {
  await registration.unregister();
  const tabs = await clients.matchAll({ type: "window", includeUncontrolled: true });
  await Promise.all(tabs.map((tab) => tab.navigate(tab.url)));
}
