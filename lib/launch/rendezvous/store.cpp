#include "launch/rendezvous/store.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/wire.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <thread>

namespace trainctl::launch {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void StoreServer::add_client(int rank, Fd socket) {
  constexpr std::size_t kMaxClients = 1024;
  ENSURE(resource, clients_.size() < kMaxClients, "a run supports at most {} ranks", kMaxClients);
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

// Returns false if the client has disconnected or was cut off.
bool StoreServer::serve(Client& client) {
  try {
    return send(client) && receive(client) && send(client);
  } catch (const Error& error) {
    disconnects_.push_back({client.rank, error.message()});
    return false;
  }
}

bool StoreServer::receive(Client& client) {
  handle_frames(client);  // requests that waited for the output
  if (!client.output.empty()) return true;
  std::array<char, 1 << 16> buffer;
  const ssize_t count = ::recv(client.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0) return would_block();
  client.input.append(buffer.data(), static_cast<std::size_t>(count));
  handle_frames(client);
  return count > 0;
}

void StoreServer::handle_frames(Client& client) {
  std::size_t at = 0;
  while (client.output.empty()) {
    const std::string_view rest = std::string_view(client.input).substr(at);
    const auto length = body_bytes(rest);
    if (!length || rest.size() < kFrameLengthBytes + *length) break;
    Request request = decode_request(rest.substr(kFrameLengthBytes, *length));
    at += kFrameLengthBytes + *length;
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
    if (sent < 0) return would_block();
    client.output.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

// Returns nothing if the reply has to wait.
std::optional<Reply> StoreServer::answer(const Request& request) {
  Reply reply;
  reply.id = request.id;
  switch (request.operation) {
    case Operation::set: return store(request.keys[0], request.value, reply);
    case Operation::add: return add(request);
    case Operation::size: reply.value = std::to_string(values_.size()); return reply;
    case Operation::try_get: {
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
  // Every entry has an overhead, so that the number of entries is bounded as well.
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
  const auto before = found == values_.end() ? std::optional<std::int64_t>(0)
                                             : parse_number<std::int64_t>(found->second);
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
      send(client);  // a failure appears in the next call
    }
  }
}

std::vector<StoreServer::Disconnect> StoreServer::take_disconnects() {
  return std::exchange(disconnects_, {});
}

namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

// The supervisor answers immediately unless it is stopped or overloaded.
constexpr Milliseconds kReplyTimeout{60'000};

[[noreturn]] void supervisor_gone() {
  throw Error(ErrorKind::rank_failed,
              "lost the connection to the trainctl process that started this rank: it has exited, "
              "or it rejected an invalid request");
}

void check_key(const std::string& key) {
  ENSURE(unexpected, key.size() <= kMaxKeyBytes,
         "the name of a shared value must have at most {1} bytes, got {0}: '{2}...'", key.size(),
         kMaxKeyBytes, printable(key.substr(0, 60)));
}

std::int64_t replied_number(const std::string& text) {
  const auto value = parse_number<std::int64_t>(text);
  ENSURE(unexpected, value, "trainctl answered this rank with '{}', not a number", printable(text));
  return *value;
}

Milliseconds left_until(SteadyTime end) {
  const auto left = std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now());
  return std::max(left, Milliseconds(0));
}

}  // namespace

struct StoreClient::State {
  std::mutex mutex;
  Fd socket;
  std::uint32_t last_id = 0;
  std::string input;

  // Returns the reply, or nothing on time-out; a late reply is recognized by its id and dropped.
  std::optional<Reply> ask(Request request, Milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    const std::lock_guard lock(mutex);
    request.id = ++last_id;
    const std::string frame = encode_request(request);
    ENSURE(unexpected, frame.size() <= kFrameLengthBytes + kMaxFrameBytes,
           "a request to share values must have at most {1} bytes, got {0}", frame.size(),
           kMaxFrameBytes);
    send(frame);
    while (true) {
      if (auto reply = take_reply(request.id)) return reply;
      pollfd ready{socket.get(), POLLIN, 0};
      const int count = ::poll(&ready, 1, static_cast<int>(left_until(end).count()));
      if (count == 0) return std::nullopt;
      if (count > 0) receive();
    }
  }

  Reply ask(Request request) {
    auto reply = ask(std::move(request), kReplyTimeout);
    ENSURE(hang, reply.has_value(),
           "the trainctl process that started this rank did not answer within {} s",
           kReplyTimeout.count() / 1000);
    return std::move(*reply);
  }

 private:
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) supervisor_gone();
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void receive() {
    std::array<char, 1 << 16> buffer;
    const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) supervisor_gone();
    input.append(buffer.data(), static_cast<std::size_t>(count));
  }

  std::optional<Reply> take_reply(std::uint32_t id) {
    while (true) {
      const auto length = body_bytes(input);
      if (!length || input.size() < kFrameLengthBytes + *length) return std::nullopt;
      Reply reply = decode_reply(std::string_view(input).substr(kFrameLengthBytes, *length));
      input.erase(0, kFrameLengthBytes + *length);
      if (reply.id == id) return reply;
    }
  }
};

StoreClient::StoreClient(int fd) : state_(std::make_unique<State>()) { state_->socket = Fd(fd); }
StoreClient::~StoreClient() = default;

void StoreClient::set(const std::string& key, const std::string& value) {
  check_key(key);
  ENSURE(unexpected, value.size() <= kMaxValueBytes,
         "the shared value '{0}' must have at most {2} bytes, got {1}", printable(key),
         value.size(), kMaxValueBytes);
  const Reply reply = state_->ask({.operation = Operation::set, .keys = {key}, .value = value});
  ENSURE(resource, reply.status == Status::ok,
         "cannot pass '{}' to the other ranks: the memory for values that ranks exchange is full",
         printable(key));
}

std::optional<std::string> StoreClient::try_get(const std::string& key) {
  check_key(key);
  Reply reply = state_->ask({.operation = Operation::try_get, .keys = {key}});
  if (reply.status != Status::ok) return std::nullopt;
  return std::move(reply.value);
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  const Reply reply = state_->ask({.operation = Operation::add, .keys = {key}, .delta = delta});
  ENSURE(resource, reply.status != Status::full,
         "cannot pass '{}' to the other ranks: the memory for values that ranks exchange is full",
         printable(key));
  ENSURE(unexpected, reply.status == Status::ok,
         "cannot add {1} to the shared value '{0}': it is not a number", printable(key), delta);
  return replied_number(reply.value);
}

bool StoreClient::erase(const std::string& key) {
  check_key(key);
  return state_->ask({.operation = Operation::erase, .keys = {key}}).status == Status::ok;
}

std::int64_t StoreClient::size() {
  return replied_number(state_->ask({.operation = Operation::size}).value);
}

void StoreClient::wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  ENSURE(unexpected, keys.size() <= kMaxWaitKeys,
         "cannot wait for {} shared values: the limit is {}", keys.size(), kMaxWaitKeys);
  for (const std::string& key : keys) check_key(key);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    // Waits in slices, so that other threads can use the connection.
    constexpr Milliseconds kSlice{50};
    if (state_->ask({.operation = Operation::wait, .keys = keys},
                    std::min(kSlice, left_until(end))))
      return;
    if (left_until(end).count() == 0) break;
    std::this_thread::sleep_for(Milliseconds(1));
  }
  const std::string first = keys.empty() ? "" : printable(keys.front());
  const std::string others = keys.size() > 1 ? fmt::format(" and {} more", keys.size() - 1) : "";
  THROW(hang, "a rank is missing: it did not send its address or data within {} (awaited: '{}'{})",
        human_duration(static_cast<double>(timeout.count()) / 1000), first, others);
}

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
         "unknown operation {}", operation);
  request.operation = static_cast<Operation>(operation);
  std::size_t keys = request.operation == Operation::size ? 0 : 1;
  if (request.operation == Operation::wait) keys = reader.number<std::uint32_t>();
  ENSURE(unexpected, keys <= kMaxWaitKeys, "a request must have at most {1} keys, got {0}", keys,
         kMaxWaitKeys);
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
         "unknown status {}", status);
  reply.status = static_cast<Status>(status);
  reply.value = reader.text(kMaxValueBytes);
  reader.finish();
  return reply;
}

std::optional<std::size_t> body_bytes(std::string_view bytes) {
  if (bytes.size() < kFrameLengthBytes) return std::nullopt;
  const auto length = Reader(bytes.substr(0, kFrameLengthBytes)).number<std::uint32_t>();
  ENSURE(unexpected, length <= kMaxFrameBytes, "a message must have at most {1} bytes, got {0}",
         length, kMaxFrameBytes);
  return length;
}

}  // namespace trainctl::launch
