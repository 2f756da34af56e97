// Tells the terminal server what the agent is doing, and the agent who it is.
//
// One line of JSON for each event goes to the file that CAO_EVENT_FILE names. Sessions that the
// agent opens for its helpers are left out. The text of a prompt is never written down.

import { appendFileSync } from "node:fs"

const file = process.env.CAO_EVENT_FILE
const profile = process.env.CAO_SESSION_CONTEXT

export const Signals = async () => {
  const helpers = new Set()
  const speakers = new Map()
  let said = new Map()
  let trouble = null
  let busy = false
  let acting = null

  const write = (event, more = {}) => appendFileSync(file, JSON.stringify({ event, ...more }) + "\n")

  const finish = () => {
    if (!busy) return
    busy = false
    if (trouble === null) write("finished", { answer: [...said.values()].join("\n\n") })
    else write(trouble.name === "MessageAbortedError" ? "interrupted" : "failed", trouble)
  }

  const changeStatus = (status) => {
    if (status.type === "idle") finish()
    else write(status.type === "retry" ? "retrying" : "working")
  }

  const noteTool = ({ callID, tool, state }) => {
    said = new Map()
    if (state?.status !== "running" || acting === callID) return
    acting = callID
    const { command, filePath, path, pattern, url } = state.input ?? {}
    const told = String(command ?? filePath ?? path ?? pattern ?? url ?? "")
    write("acts", { tool, told: told.slice(0, 200) })
  }

  const notePart = (part) => {
    if (speakers.get(part.messageID) !== "assistant") return
    // What is said before a tool is used is not the last word.
    if (part.type === "tool") noteTool(part)
    else if (part.type === "text" && part.text) said.set(part.id, part.text)
  }

  const handlers = {
    "session.created": ({ info }) => info.parentID && helpers.add(info.id),
    "message.updated": ({ info }) => speakers.set(info.id, info.role),
    "message.part.updated": ({ part }) => notePart(part),
    "message.part.removed": ({ partID }) => said.delete(partID),
    "session.status": ({ status }) => changeStatus(status),
    "session.error": ({ error }) => {
      trouble = { name: error?.name ?? "", message: error?.data?.message ?? "" }
    },
    "permission.asked": () => write("asks", { what: "permission" }),
    "permission.replied": () => write("working"),
    "question.asked": () => write("asks", { what: "question" }),
    "question.replied": () => write("working"),
    "question.rejected": () => write("working"),
  }

  return {
    event: async ({ event }) => {
      const about = event.properties ?? {}
      if (!helpers.has(about.sessionID)) handlers[event.type]?.(about)
    },
    "chat.message": async ({ sessionID }) => {
      if (helpers.has(sessionID)) return
      said = new Map()
      trouble = null
      busy = true
      write("submitted")
    },
    "experimental.chat.system.transform": async (_input, output) => {
      if (profile) output.system.push(profile)
    },
  }
}
