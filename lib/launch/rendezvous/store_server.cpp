#include "launch/rendezvous/store_server.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace trainctl::launch {
namespace {

std::optional<std::int64_t> to_number(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void StoreServer::add_client(int rank, Fd socket) {
  constexpr std::size_t kMaxClients = 1024;
  ENSURE(resource, clients_.size() < kMaxClients, "the store serves at most {} ranks", kMaxClients);
  const int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  clients_.push_back({rank, std::move(socket), {}, {}, {}});
}

void StoreServer::append_to(std::vector<pollfd>& polls) const {
  for (const Client& client : clients_) {
    polls.push_back(
        {client.socket.get(), static_cast<short>(client.output.empty() ? POLLIN : POLLOUT), 0});
  }
}

void StoreServer::serve() {
  std::erase_if(clients_, [this](Client& client) { return !serve(client); });
  answer_waiting();
}

// False: the client is gone, by itself or cut off.
bool StoreServer::serve(Client& client) {
  try {
    return send(client) && receive(client) && send(client);
  } catch (const Error& error) {
    cuts_.push_back({client.rank, error.message()});
    return false;
  }
}

bool StoreServer::receive(Client& client) {
  handle_frames(client);  // those that had to wait for the output
  if (!client.output.empty()) return true;
  std::array<char, 1 << 16> buffer;
  const ssize_t count = ::recv(client.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0) return try_again();
  client.input.append(buffer.data(), static_cast<std::size_t>(count));
  handle_frames(client);
  return count > 0;
}

void StoreServer::handle_frames(Client& client) {
  std::size_t at = 0;
  while (client.output.empty()) {
    const std::string_view rest = std::string_view(client.input).substr(at);
    const auto length = body_bytes(rest);
    if (!length || rest.size() < kFrameHeadBytes + *length) break;
    Request request = decode_request(rest.substr(kFrameHeadBytes, *length));
    at += kFrameHeadBytes + *length;
    client.waiting.reset();
    if (const auto reply = answer(request)) {
      client.output += encode_reply(*reply);
    } else {
      client.waiting = std::move(request);
    }
  }
  client.input.erase(0, at);
}

bool StoreServer::send(Client& client) {
  while (!client.output.empty()) {
    const ssize_t sent =
        ::send(client.socket.get(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
    if (sent < 0) return try_again();
    client.output.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

// Nothing: the reply has to wait.
std::optional<Reply> StoreServer::answer(const Request& request) {
  Reply reply;
  reply.id = request.id;
  switch (request.operation) {
    case Operation::set: return store(request.keys[0], request.value, reply);
    case Operation::add: return add(request);
    case Operation::size: reply.value = std::to_string(values_.size()); return reply;
    case Operation::look: {
      const auto found = values_.find(request.keys[0]);
      reply.status = found == values_.end() ? Status::absent : Status::ok;
      if (found != values_.end()) reply.value = found->second;
      return reply;
    }
    case Operation::erase: {
      const auto found = values_.find(request.keys[0]);
      reply.status = found == values_.end() ? Status::absent : Status::ok;
      if (found == values_.end()) return reply;
      stored_bytes_ -= found->first.size() + found->second.size();
      values_.erase(found);
      return reply;
    }
    case Operation::wait: break;
  }
  const bool all = std::ranges::all_of(
      request.keys, [&](const std::string& key) { return values_.contains(key); });
  return all ? std::optional(reply) : std::nullopt;
}

Reply StoreServer::store(const std::string& key, std::string value, Reply reply) {
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  const std::size_t after = stored_bytes_ - before + key.size() + value.size();
  // Every entry costs some bytes of its own, so their number is bounded as well.
  constexpr std::size_t kEntryBytes = 128;
  if (after + (values_.size() + 1) * kEntryBytes > kMaxStoreBytes) {
    reply.status = Status::full;
    return reply;
  }
  stored_bytes_ = after;
  values_[key] = std::move(value);
  return reply;
}

Reply StoreServer::add(const Request& request) {
  Reply reply;
  reply.id = request.id;
  const auto found = values_.find(request.keys[0]);
  const auto before =
      found == values_.end() ? std::optional<std::int64_t>(0) : to_number(found->second);
  std::int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, request.delta, &sum)) {
    reply.status = Status::not_a_number;
    return reply;
  }
  reply.value = std::to_string(sum);
  return store(request.keys[0], reply.value, reply);
}

void StoreServer::answer_waiting() {
  for (Client& client : clients_) {
    if (!client.waiting) continue;
    if (const auto reply = answer(*client.waiting)) {
      client.waiting.reset();
      client.output += encode_reply(*reply);
      send(client);  // a failure shows at the next call
    }
  }
}

std::vector<StoreServer::Cut> StoreServer::take_cuts() { return std::exchange(cuts_, {}); }

}  // namespace trainctl::launch
