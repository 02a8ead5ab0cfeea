-- What those are told who may not come in by their address: a status, the header that names the rule, and further
-- headers as lists of name and value. All of that comes as data; nothing that a user wrote is part of this text.

local empty = { ["204"] = true, ["205"] = true, ["304"] = true }

function envoy_on_response(handle)
  local found = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.rbac")
  if not found or found["acl_enforced_engine_result"] ~= "denied" then return end
  local status, named_by, others = unpack(handle:filterContext():get("deny"))
  if empty[status] then
    local body = handle:body()
    if body then body:setBytes("") end
  end
  local headers = handle:headers()
  -- Calls of gRPC are told in their own way, with status 200.
  if headers:get(":status") == "403" then
    headers:replace(":status", status)
    if empty[status] and status ~= "205" then headers:remove("content-length") end
  end
  for _, header in ipairs(others) do headers:remove(header[1]) end
  for _, header in ipairs(others) do headers:add(header[1], header[2]) end
  if named_by ~= "" then
    headers:replace(named_by, found["acl_shadow_effective_policy_id"] or "default")
  end
end
