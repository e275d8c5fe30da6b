#pragma once

#include "base/hash.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// The handshake in which a joining node and the coordinator (node 0) prove to each other that
// they know the token. Both state machines consume and produce bytes, so they are tested and fuzzed
// without sockets. The frames (a u32 length and a body; see wire.hpp) are, in this order:
//
// clang-format off
//   joiner  hello      "trainctl", version u8, role u8, number u32, nonce (32 bytes), run id (text)
//   node 0  challenge  nonce (32 bytes)
//   joiner  proof      32 bytes
//   node 0  answer     status u8, reason (text), proof (32 bytes)
// clang-format on
//
// A proof is the HMAC-SHA256, keyed with the token, of the prover's role, the version, both nonces,
// the claim and the run id; that of the coordinator also covers its status and reason. A proof is
// therefore worthless in another connection or for the other side. A peer without the token gets
// only 32 random bytes from the coordinator.

namespace trainctl::launch {

inline constexpr std::uint8_t kHandshakeVersion = 1;
inline constexpr std::size_t kMaxRunIdBytes = 256;
inline constexpr std::size_t kMaxReasonBytes = 256;
inline constexpr std::size_t kMaxHandshakeBytes = 512;  // limit for a frame body

using Nonce = std::array<std::byte, 32>;

/// Returns random bytes from the kernel, for one connection. Throws Error(resource).
Nonce make_nonce();

/// Compares two texts; the time does not depend on the first difference.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// The values that both sides of a handshake have exchanged.
struct HandshakeTranscript {
  Claim claim;
  std::string run_id;
  Nonce joiner_nonce{};
  Nonce coordinator_nonce{};
};

enum class JoinStatus : std::uint8_t { accepted = 1, already_joined, out_of_range };

struct Answer {
  JoinStatus status = JoinStatus::accepted;
  std::string reason;  // message for the user; empty if accepted
};

Sha256 joiner_proof(const Token& token, const HandshakeTranscript& transcript);
Sha256 coordinator_proof(const Token& token, const HandshakeTranscript& transcript,
                         const Answer& answer);

/// Assembles frames from a stream and never consumes a byte after the current frame.
class FrameReader {
 public:
  /// Returns the number of bytes missing from the current frame, as far as known; never 0.
  [[nodiscard]] std::size_t bytes_needed() const;
  /// Consumes at most `bytes_needed()` bytes and returns the body when the frame is complete.
  /// Throws Error(unexpected) for a length above kMaxHandshakeBytes.
  std::optional<std::string> take(std::string_view bytes);

 private:
  std::string pending_;
};

/// The coordinator's side of one connection.
class CoordinatorHandshake {
 public:
  CoordinatorHandshake(const Token& token, std::string run_id, const Nonce& nonce);

  /// Returns the maximum number of bytes to read before the next take(); 0 at the end.
  [[nodiscard]] std::size_t bytes_needed() const;
  /// Consumes bytes. Throws Error(unexpected) describing the joiner if it breaks the protocol or
  /// has another token, run id or version; the caller then closes the connection without an answer.
  void take(std::string_view bytes);
  /// Returns the bytes to send now.
  std::string take_output() { return std::exchange(output_, {}); }

  /// Returns the claim of the joiner once it has proved the token; answer() is then called once.
  [[nodiscard]] const std::optional<Claim>& proved_claim() const { return proved_claim_; }
  /// Answers a joiner that has proved the token; take_output() has the bytes to send.
  void answer(const Answer& answer);

 private:
  void take_hello(std::string_view body);
  void take_proof(std::string_view body);

  Token token_;
  HandshakeTranscript transcript_;
  FrameReader frames_;
  bool has_hello_ = false;
  std::string requested_run_id_;  // run id that the joiner sent
  std::optional<Claim> proved_claim_;
  std::string output_;
};

/// The joining side of one connection.
class JoinHandshake {
 public:
  JoinHandshake(const JoinOptions& request, const Nonce& nonce);

  [[nodiscard]] std::size_t bytes_needed() const;
  /// Throws Error(unexpected) if the other side breaks the protocol or does not know the token.
  void take(std::string_view bytes);
  std::string take_output() { return std::exchange(output_, {}); }

  /// Returns whether the challenge has arrived and the proof was created.
  [[nodiscard]] bool has_sent_proof() const { return has_challenge_; }
  /// Returns the answer of the coordinator, once it has proved that it knows the token.
  [[nodiscard]] const std::optional<Answer>& answer() const { return answer_; }

 private:
  void take_challenge(std::string_view body);
  void take_answer(std::string_view body);

  Token token_;
  HandshakeTranscript transcript_;
  FrameReader frames_;
  bool has_challenge_ = false;
  std::optional<Answer> answer_;
  std::string output_;
};

}  // namespace trainctl::launch
