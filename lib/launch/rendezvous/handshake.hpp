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

// How a joining side and the head prove to each other that they know the token: both machines take
// bytes and give bytes, so they are tested and fuzzed without a socket. Frames (a length u32 and
// its body; see wire.hpp), in this order:
//
// clang-format off
//   joiner  hello      "trainctl", version u8, role u8, number u32, nonce (32 bytes), run id (text)
//   head    challenge  nonce (32 bytes)
//   joiner  proof      32 bytes
//   head    answer     verdict u8, reason (text), proof (32 bytes)
// clang-format on
//
// A proof is the HMAC-SHA256, keyed by the token, of who proves it, the version, both nonces, the
// claim and the run id; the head's covers its verdict and reason as well. So what one connection or
// one side has said proves nothing in another. Whoever has not proved the token gets 32 random
// bytes from the head, and no word.

namespace trainctl::launch {

inline constexpr std::uint8_t kHandshakeVersion = 1;
inline constexpr std::size_t kMaxRunIdBytes = 256;
inline constexpr std::size_t kMaxReasonBytes = 256;
inline constexpr std::size_t kMaxHandshakeBytes = 512;  // of a body

using Nonce = std::array<std::byte, 32>;

/// Random bytes of the kernel, for one connection. Error(resource).
Nonce make_nonce();

/// Takes as long for texts that differ early as for those that differ late.
bool same_in_constant_time(std::string_view a, std::string_view b);

/// What both sides have told each other.
struct Exchange {
  Claim claim;
  std::string run_id;
  Nonce joiner{};
  Nonce head{};
};

enum class Verdict : std::uint8_t { welcome = 1, taken, out_of_range };

struct Answer {
  Verdict verdict = Verdict::welcome;
  std::string reason;  // for people; empty for welcome
};

Sha256 joiner_proof(const Token& token, const Exchange& exchange);
Sha256 head_proof(const Token& token, const Exchange& exchange, const Answer& answer);

/// Gathers one frame after the other, and never a byte of what follows.
class FrameGatherer {
 public:
  /// Bytes still missing from the frame under way, as far as is known; never 0.
  [[nodiscard]] std::size_t wanted() const;
  /// At most `wanted()` bytes; gives the body once it is whole. Error(unexpected) for a length
  /// above kMaxHandshakeBytes.
  std::optional<std::string> take(std::string_view bytes);

 private:
  std::string pending_;
};

/// The head's side of one connection.
class HeadHandshake {
 public:
  HeadHandshake(const Token& token, std::string run_id, const Nonce& nonce);

  /// How many bytes to read, at most, before the next call of take(); 0: no more.
  [[nodiscard]] std::size_t wanted() const;
  /// Error(unexpected) with a sentence about the joiner where it breaks the form or has another
  /// token, run id or version: the connection is to be closed without a word.
  void take(std::string_view bytes);
  /// What is to be sent now.
  std::string take_output() { return std::exchange(output_, {}); }

  /// For whom the joiner speaks, once the token is proved; then answer() is due, once.
  [[nodiscard]] const std::optional<Claim>& proved() const { return proved_; }
  void answer(const Answer& answer);

 private:
  void take_hello(std::string_view body);
  void take_proof(std::string_view body);

  Token token_;
  Exchange exchange_;
  FrameGatherer gatherer_;
  bool greeted_ = false;
  std::string asked_for_;  // the joiner's run id
  std::optional<Claim> proved_;
  std::string output_;
};

/// The side that joins.
class JoinHandshake {
 public:
  JoinHandshake(const Join& request, const Nonce& nonce);

  [[nodiscard]] std::size_t wanted() const;
  /// Error(unexpected) where the other side breaks the form or does not know the token.
  void take(std::string_view bytes);
  std::string take_output() { return std::exchange(output_, {}); }

  /// The challenge has come, and with it the proof is on its way.
  [[nodiscard]] bool has_proved() const { return challenged_; }
  /// What the head says, once it has proved the token.
  [[nodiscard]] const std::optional<Answer>& answer() const { return answer_; }

 private:
  void take_challenge(std::string_view body);
  void take_answer(std::string_view body);

  Token token_;
  Exchange exchange_;
  FrameGatherer gatherer_;
  bool challenged_ = false;
  std::optional<Answer> answer_;
  std::string output_;
};

}  // namespace trainctl::launch
