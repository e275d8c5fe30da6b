// libFuzzer: any bytes are the messages of a joiner to the coordinator or of the coordinator to a
// joiner. Without the token they never prove anything. After a handshake they are requests of a
// rank to the store. Bad bytes throw Error(unexpected). A second attempt adds the right proof.

#include "base/error.hpp"
#include "fuzz/store_session.hpp"
#include "launch/rendezvous/handshake.hpp"
#include "launch/rendezvous/wire.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace {

using namespace trainctl;
using namespace trainctl::launch;

std::array<std::byte, 32> all_of(unsigned char value) {
  std::array<std::byte, 32> bytes{};
  bytes.fill(std::byte{value});
  return bytes;
}

// The seeds use the same values.
const Token kToken = all_of(7);
const Nonce kCoordinatorNonce = all_of(1);
const Nonce kJoinNonce = all_of(2);

/// Feeds the handshake at most as many bytes as it wants at a time, and returns how many it takes.
/// Bad bytes must throw Error(unexpected).
template <class Machine>
std::size_t feed(Machine& machine, std::string_view bytes) {
  std::size_t taken = 0;
  try {
    while (taken < bytes.size() && machine.bytes_needed() > 0) {
      if (machine.bytes_needed() > 4 + kMaxHandshakeBytes) std::abort();
      const std::size_t count = std::min(machine.bytes_needed(), bytes.size() - taken);
      machine.take(bytes.substr(taken, count));
      taken += count;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unexpected || error.message().empty()) std::abort();
  }
  return taken;
}

void feed_coordinator(std::string_view bytes) {
  CoordinatorHandshake coordinator(kToken, "run", kCoordinatorNonce);
  const std::size_t taken = feed(coordinator, bytes);
  CoordinatorHandshake other_run(all_of(8), "run", kCoordinatorNonce);
  feed(other_run, bytes);
  if (other_run.proved_claim()) std::abort();
  if (!coordinator.proved_claim()) return;
  coordinator.answer({});
  fuzz::expect_sound_store(bytes.substr(taken));
}

void feed_joiner(std::string_view bytes) {
  const auto answer_with = [&](const Token& token) {
    JoinHandshake joiner({.endpoint = {"::1", 1}, .token = token, .run_id = "run", .claim = {}},
                         kJoinNonce);
    feed(joiner, bytes);
    return joiner.answer();
  };
  answer_with(kToken);
  if (answer_with(all_of(8))) std::abort();
}

/// Returns the transcript that follows from an accepted hello: "trainctl", version, role, number,
/// nonce, run id.
HandshakeTranscript transcript_of(std::string_view hello) {
  wire::Reader reader(hello.substr(9));
  HandshakeTranscript transcript{.claim = {}, .run_id = {}, .coordinator_nonce = kCoordinatorNonce};
  transcript.claim.role = static_cast<Role>(reader.number<std::uint8_t>());
  transcript.claim.number = static_cast<int>(reader.number<std::uint32_t>());
  std::ranges::transform(reader.take(transcript.joiner_nonce.size()),
                         transcript.joiner_nonce.begin(),
                         [](char c) { return static_cast<std::byte>(c); });
  transcript.run_id = reader.text(kMaxRunIdBytes);
  return transcript;
}

/// Sends a hello, whose length is the first byte, followed by the proof that it needs.
void feed_coordinator_with_proof(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto length = static_cast<unsigned char>(bytes[0]);
  const std::string hello(bytes.substr(1, length));
  CoordinatorHandshake coordinator(kToken, "run", kCoordinatorNonce);
  feed(coordinator, wire::framed(hello));
  if (coordinator.take_output().empty()) return;
  const HandshakeTranscript transcript = transcript_of(hello);
  feed(coordinator, wire::framed(std::string(as_text(joiner_proof(kToken, transcript)))));
  const bool should_be_proved = transcript.run_id == "run";
  if (coordinator.proved_claim().has_value() != should_be_proved) std::abort();
  if (!coordinator.proved_claim()) return;
  if (coordinator.proved_claim() != transcript.claim) std::abort();
  coordinator.answer({JoinStatus::already_joined, "taken"});
  fuzz::expect_sound_store(bytes.substr(1 + hello.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  feed_coordinator(bytes);
  feed_joiner(bytes);
  feed_coordinator_with_proof(bytes);
  return 0;
}
