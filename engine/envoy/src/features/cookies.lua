-- Attributes of cookies in responses, as the rules of the route say: lists of name, path, domain, secure and same site.
-- What is empty stays as it is. Rules come as data; nothing that a user wrote is part of this text.

local function rewritten(cookie, rule)
  local taken = { path = rule[2] ~= "", domain = rule[3] ~= "", secure = rule[4] ~= "", samesite = rule[5] ~= "" }
  local parts = {}
  for part in cookie:gmatch("[^;]+") do
    local attribute = part:match("^%s*([^=%s]*)"):lower()
    if #parts == 0 or not taken[attribute] then
      parts[#parts + 1] = part
    end
  end
  local function add(text)
    parts[#parts + 1] = " " .. text
  end
  if taken.path then add("Path=" .. rule[2]) end
  if taken.domain then add("Domain=" .. rule[3]) end
  if rule[4] == "yes" then add("Secure") end
  if taken.samesite then add("SameSite=" .. rule[5]) end
  return table.concat(parts, ";")
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local count = headers:getNumValues("set-cookie")
  if count == 0 then return end
  local rules = {}
  for _, rule in ipairs(handle:filterContext():get("cookies") or {}) do
    rules[rule[1]] = rule
  end
  local cookies = {}
  for index = 0, count - 1 do
    local cookie = headers:getAtIndex("set-cookie", index)
    local rule = rules[cookie:match("^%s*([^=;%s]*)%s*=") or ""]
    cookies[#cookies + 1] = rule and rewritten(cookie, rule) or cookie
  end
  headers:remove("set-cookie")
  for _, cookie in ipairs(cookies) do
    headers:add("set-cookie", cookie)
  end
end
