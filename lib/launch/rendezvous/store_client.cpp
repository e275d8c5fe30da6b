#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/rendezvous/store_protocol.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <thread>

namespace trainctl::launch {
namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

// The supervisor answers at once unless it is stopped or overwhelmed.
constexpr Milliseconds kReplyTimeout{60'000};

[[noreturn]] void supervisor_gone() {
  throw Error(ErrorKind::rank_failed,
              "the supervisor's store is gone: it ended, or this rank broke its protocol");
}

void check_key(const std::string& key) {
  ENSURE(unexpected, key.size() <= kMaxKeyBytes,
         "a store key of {} bytes is above the limit of {}: '{}...'", key.size(), kMaxKeyBytes,
         printable(key.substr(0, 60)));
}

std::int64_t to_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ENSURE(unexpected, error == std::errc() && end == text.data() + text.size(),
         "the store answered '{}', not a number", printable(text));
  return value;
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

  // The reply, or nothing when the time is over; a late reply is recognised by its id and dropped.
  std::optional<Reply> ask(Request request, Milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    const std::lock_guard lock(mutex);
    request.id = ++last_id;
    const std::string frame = encode_request(request);
    ENSURE(unexpected, frame.size() <= kFrameHeadBytes + kMaxFrameBytes,
           "a store request of {} bytes is above the limit of {}", frame.size(), kMaxFrameBytes);
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
    ENSURE(hang, reply.has_value(), "the supervisor's store has not answered for {} s",
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
      if (!length || input.size() < kFrameHeadBytes + *length) return std::nullopt;
      Reply reply = decode_reply(std::string_view(input).substr(kFrameHeadBytes, *length));
      input.erase(0, kFrameHeadBytes + *length);
      if (reply.id == id) return reply;
    }
  }
};

StoreClient::StoreClient(int fd) : state_(std::make_unique<State>()) { state_->socket = Fd(fd); }
StoreClient::~StoreClient() = default;

void StoreClient::set(const std::string& key, const std::string& value) {
  check_key(key);
  ENSURE(unexpected, value.size() <= kMaxValueBytes,
         "the value of store key '{}' has {} bytes, above the limit of {}", printable(key),
         value.size(), kMaxValueBytes);
  const Reply reply = state_->ask({.operation = Operation::set, .keys = {key}, .value = value});
  ENSURE(resource, reply.status == Status::ok, "the store is full: no room for key '{}'",
         printable(key));
}

std::optional<std::string> StoreClient::look(const std::string& key) {
  check_key(key);
  Reply reply = state_->ask({.operation = Operation::look, .keys = {key}});
  if (reply.status != Status::ok) return std::nullopt;
  return std::move(reply.value);
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  const Reply reply = state_->ask({.operation = Operation::add, .keys = {key}, .delta = delta});
  ENSURE(resource, reply.status != Status::full, "the store is full: no room for key '{}'",
         printable(key));
  ENSURE(unexpected, reply.status == Status::ok,
         "store key '{}' is no number that {} could be added to", printable(key), delta);
  return to_number(reply.value);
}

bool StoreClient::erase(const std::string& key) {
  check_key(key);
  return state_->ask({.operation = Operation::erase, .keys = {key}}).status == Status::ok;
}

std::int64_t StoreClient::size() {
  return to_number(state_->ask({.operation = Operation::size}).value);
}

void StoreClient::wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  ENSURE(unexpected, keys.size() <= kMaxWaitKeys, "cannot wait for {} keys, the limit is {}",
         keys.size(), kMaxWaitKeys);
  for (const std::string& key : keys) check_key(key);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    // In slices, so that other threads get their turn.
    constexpr Milliseconds kSlice{50};
    if (state_->ask({.operation = Operation::wait, .keys = keys},
                    std::min(kSlice, left_until(end))))
      return;
    if (left_until(end).count() == 0) break;
    std::this_thread::sleep_for(Milliseconds(1));
  }
  const std::string first = keys.empty() ? "" : printable(keys.front());
  throw Error(
      ErrorKind::hang,
      fmt::format(
          "not all of {} store keys were set within {} (the first is '{}'): a rank is missing",
          keys.size(), human_duration(static_cast<double>(timeout.count()) / 1000), first));
}

}  // namespace trainctl::launch
