#include "launch/rendezvous/store_protocol.hpp"

#include "base/error.hpp"
#include "launch/rendezvous/wire.hpp"

namespace trainctl::launch {
namespace {

using wire::framed;
using wire::put;
using wire::put_text;
using wire::Reader;

}  // namespace

std::string encode_request(const Request& request) {
  std::string body;
  put(body, request.id);
  put(body, static_cast<std::uint8_t>(request.operation));
  if (request.operation == Operation::wait)
    put(body, static_cast<std::uint32_t>(request.keys.size()));
  for (const std::string& key : request.keys) put_text(body, key);
  if (request.operation == Operation::set) put_text(body, request.value);
  if (request.operation == Operation::add) put(body, static_cast<std::uint64_t>(request.delta));
  return framed(body);
}

std::string encode_reply(const Reply& reply) {
  std::string body;
  put(body, reply.id);
  put(body, static_cast<std::uint8_t>(reply.status));
  put_text(body, reply.value);
  return framed(body);
}

Request decode_request(std::string_view body) {
  Reader reader(body);
  Request request;
  request.id = reader.number<std::uint32_t>();
  const auto operation = reader.number<std::uint8_t>();
  ENSURE(unexpected, operation >= 1 && operation <= static_cast<std::uint8_t>(Operation::wait),
         "operation {} is unknown", operation);
  request.operation = static_cast<Operation>(operation);
  std::size_t keys = request.operation == Operation::size ? 0 : 1;
  if (request.operation == Operation::wait) keys = reader.number<std::uint32_t>();
  ENSURE(unexpected, keys <= kMaxWaitKeys, "{} keys are above the limit of {}", keys, kMaxWaitKeys);
  while (request.keys.size() < keys) request.keys.push_back(reader.text(kMaxKeyBytes));
  if (request.operation == Operation::set) request.value = reader.text(kMaxValueBytes);
  if (request.operation == Operation::add)
    request.delta = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  reader.finish();
  return request;
}

Reply decode_reply(std::string_view body) {
  Reader reader(body);
  Reply reply;
  reply.id = reader.number<std::uint32_t>();
  const auto status = reader.number<std::uint8_t>();
  ENSURE(unexpected, status >= 1 && status <= static_cast<std::uint8_t>(Status::not_a_number),
         "status {} is unknown", status);
  reply.status = static_cast<Status>(status);
  reply.value = reader.text(kMaxValueBytes);
  reader.finish();
  return reply;
}

std::optional<std::size_t> body_bytes(std::string_view bytes) {
  if (bytes.size() < kFrameHeadBytes) return std::nullopt;
  const auto length = Reader(bytes.substr(0, kFrameHeadBytes)).number<std::uint32_t>();
  ENSURE(unexpected, length <= kMaxFrameBytes, "a frame of {} bytes is above the limit of {}",
         length, kMaxFrameBytes);
  return length;
}

}  // namespace trainctl::launch
