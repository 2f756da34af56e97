// Tells the terminal server what pi is doing, and asks a person before a command or a change.
//
// One line of JSON for each event goes to the file that CAO_EVENT_FILE names. After an error pi may
// try again: that counts as work, and a row below its input box says that the newest try failed.

import { appendFileSync } from "node:fs"

const CHANGES = new Set(["bash", "edit", "write"])

export default (pi) => {
  const write = (event, more = {}) =>
    appendFileSync(process.env.CAO_EVENT_FILE, JSON.stringify({ event, ...more }) + "\n")

  pi.on("agent_start", (_event, { ui }) => {
    ui.setStatus("cao", undefined)
    write("submitted")
  })

  pi.on("agent_end", ({ messages }, { ui }) => {
    const last = messages.findLast(({ role }) => role === "assistant")
    const texts = (last?.content ?? []).filter(({ type }) => type === "text")
    if (last?.stopReason === "error") ui.setStatus("cao", "the model failed")
    if (last?.stopReason === "error") write("error")
    else if (last?.stopReason === "aborted") write("interrupted")
    else write("finished", { answer: texts.map(({ text }) => text).join("\n\n") })
  })

  pi.on("tool_call", async ({ toolName, input }, { ui }) => {
    const told = String(input.command ?? input.path ?? "")
    write("acts", { tool: toolName, told: told.slice(0, 200) })
    if (!process.env.CAO_ASK || !CHANGES.has(toolName)) return undefined
    write("asks")
    const allowed = await ui.confirm(`Allow ${toolName}?`, told)
    write("working")
    return allowed ? undefined : { block: true, reason: "A person has refused it." }
  })
}
