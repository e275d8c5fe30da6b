#pragma once

#include "base/error.hpp"
#include "launch/rendezvous/store.hpp"

#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace trainctl::fuzz {

/// Returns the server's answers to one client that sends `bytes` and then closes its end.
inline std::string answers_of(launch::StoreServer& server, std::string_view bytes) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  const Fd client(ends[1]);
  server.add_client(0, Fd(ends[0]));
  std::string answers;
  std::array<char, 1 << 16> buffer;
  for (int turn = 0; server.clients() > 0; ++turn) {
    if (turn > 1'000'000) std::abort();  // the server never finishes
    const ssize_t sent =
        ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (bytes.empty()) ::shutdown(client.get(), SHUT_WR);
    server.serve();
    while (true) {
      const ssize_t count = ::recv(client.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      answers.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (server.stored_bytes() > launch::kMaxStoreBytes) std::abort();
  }
  return answers;
}

/// Aborts unless the server answers with whole replies, or disconnects the client with a reason.
inline void expect_sound_store(std::string_view bytes) {
  launch::StoreServer server;
  const std::string answers = answers_of(server, bytes);
  for (std::string_view rest = answers; !rest.empty();) {
    const auto length = launch::body_bytes(rest);
    if (!length || rest.size() < launch::kFrameLengthBytes + *length) std::abort();
    launch::decode_reply(rest.substr(launch::kFrameLengthBytes, *length));
    rest.remove_prefix(launch::kFrameLengthBytes + *length);
  }
  for (const launch::StoreServer::Disconnect& lost : server.take_disconnects()) {
    if (lost.reason.empty()) std::abort();
  }
}

}  // namespace trainctl::fuzz
