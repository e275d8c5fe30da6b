#include "launch/rendezvous/handshake.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/wire.hpp"

#include <algorithm>

namespace trainctl::launch {
namespace {

constexpr std::string_view kMagic = "trainctl";
constexpr std::size_t kLengthBytes = 4;  // length of a frame
constexpr std::size_t kShownBytes = 60;

// Texts are prefixed with their length and other fields have a fixed size: the encoding is unique.
std::string signed_text(std::string_view side, const HandshakeTranscript& transcript) {
  std::string text;
  wire::put_text(text, "trainctl rendezvous");
  wire::put_text(text, side);
  wire::put(text, kHandshakeVersion);
  text += wire::as_text(transcript.joiner_nonce);
  text += wire::as_text(transcript.coordinator_nonce);
  wire::put(text, static_cast<std::uint8_t>(transcript.claim.role));
  wire::put(text, static_cast<std::uint32_t>(transcript.claim.number));
  wire::put_text(text, transcript.run_id);
  return text;
}

std::string hello_body(const HandshakeTranscript& transcript) {
  std::string body(kMagic);
  wire::put(body, kHandshakeVersion);
  wire::put(body, static_cast<std::uint8_t>(transcript.claim.role));
  wire::put(body, static_cast<std::uint32_t>(transcript.claim.number));
  body += wire::as_text(transcript.joiner_nonce);
  wire::put_text(body, transcript.run_id);
  return body;
}

Nonce read_nonce(wire::Reader& reader) {
  Nonce nonce{};
  std::ranges::transform(reader.take(nonce.size()), nonce.begin(),
                         [](char c) { return static_cast<std::byte>(c); });
  return nonce;
}

Claim read_claim(wire::Reader& reader) {
  const auto role = reader.number<std::uint8_t>();
  ENSURE(unexpected, role == 1 || role == 2, "unknown role {}", role);
  const auto number = reader.number<std::uint32_t>();
  ENSURE(unexpected, std::in_range<int>(number), "rank {} is too large", number);
  return {static_cast<Role>(role), static_cast<int>(number)};
}

std::string shown(std::string_view text) {
  return fmt::format("'{}'{}", printable(text.substr(0, kShownBytes)),
                     text.size() > kShownBytes ? "..." : "");
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce{};
  fill_with_random(nonce);
  return nonce;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // `volatile` keeps the compiler from returning early.
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned bits = static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    difference = difference | bits;
  }
  return difference == 0;
}

Sha256 joiner_proof(const Token& token, const HandshakeTranscript& transcript) {
  return hmac_sha256(wire::as_text(token), signed_text("joiner", transcript));
}

Sha256 coordinator_proof(const Token& token, const HandshakeTranscript& transcript,
                         const Answer& answer) {
  std::string text = signed_text("head", transcript);
  wire::put(text, static_cast<std::uint8_t>(answer.status));
  wire::put_text(text, answer.reason);
  return hmac_sha256(wire::as_text(token), text);
}

std::size_t FrameReader::bytes_needed() const {
  if (pending_.size() < kLengthBytes) return kLengthBytes - pending_.size();
  const auto length = wire::Reader(pending_).number<std::uint32_t>();
  return kLengthBytes + length - pending_.size();
}

std::optional<std::string> FrameReader::take(std::string_view bytes) {
  ASSERT(bytes.size() <= bytes_needed());
  pending_ += bytes;
  if (pending_.size() < kLengthBytes) return std::nullopt;
  const auto length = wire::Reader(pending_).number<std::uint32_t>();
  ENSURE(unexpected, length > 0 && length <= kMaxHandshakeBytes,
         "it sent {}, which is not a message of trainctl", shown(pending_));
  if (pending_.size() < kLengthBytes + length) return std::nullopt;
  std::string body = pending_.substr(kLengthBytes);
  pending_.clear();
  return body;
}

// ---- the coordinator

CoordinatorHandshake::CoordinatorHandshake(const Token& token, std::string run_id,
                                           const Nonce& nonce)
    : token_(token) {
  transcript_.run_id = std::move(run_id);
  transcript_.coordinator_nonce = nonce;
}

std::size_t CoordinatorHandshake::bytes_needed() const {
  return proved_claim_ ? 0 : frames_.bytes_needed();
}

void CoordinatorHandshake::take(std::string_view bytes) {
  const auto body = frames_.take(bytes);
  if (!body) return;
  if (has_hello_) {
    take_proof(*body);
  } else {
    take_hello(*body);
  }
}

void CoordinatorHandshake::take_hello(std::string_view body) {
  ENSURE(unexpected, body.starts_with(kMagic), "it sent {}, which is not a message of trainctl",
         shown(body));
  wire::Reader reader(body.substr(kMagic.size()));
  const auto version = reader.number<std::uint8_t>();
  ENSURE(unexpected, version == kHandshakeVersion,
         "it uses protocol version {}, this node uses {}\nhint: run the same trainctl on all nodes",
         version, kHandshakeVersion);
  transcript_.claim = read_claim(reader);
  transcript_.joiner_nonce = read_nonce(reader);
  requested_run_id_ = reader.text(kMaxRunIdBytes);
  reader.finish();
  has_hello_ = true;
  output_ += wire::framed(std::string(wire::as_text(transcript_.coordinator_nonce)));
}

void CoordinatorHandshake::take_proof(std::string_view body) {
  const Sha256 expected = joiner_proof(token_, transcript_);
  const bool is_valid = equal_in_constant_time(body, as_text(expected));
  ENSURE(unexpected, requested_run_id_ == transcript_.run_id,
         "its run id is {}, but the run of node 0 has the id {}", shown(requested_run_id_),
         shown(transcript_.run_id));
  ENSURE(unexpected, is_valid, "its token differs from the token of node 0");
  proved_claim_ = transcript_.claim;
}

void CoordinatorHandshake::answer(const Answer& answer) {
  ASSERT(proved_claim_ && answer.reason.size() <= kMaxReasonBytes);
  std::string body;
  wire::put(body, static_cast<std::uint8_t>(answer.status));
  wire::put_text(body, answer.reason);
  body += as_text(coordinator_proof(token_, transcript_, answer));
  output_ += wire::framed(body);
}

// ---- the joining side

JoinHandshake::JoinHandshake(const JoinOptions& request, const Nonce& nonce)
    : token_(request.token) {
  transcript_ = {request.claim, request.run_id, nonce, {}};
  output_ = wire::framed(hello_body(transcript_));
}

std::size_t JoinHandshake::bytes_needed() const { return answer_ ? 0 : frames_.bytes_needed(); }

void JoinHandshake::take(std::string_view bytes) {
  const auto body = frames_.take(bytes);
  if (!body) return;
  if (has_challenge_) {
    take_answer(*body);
  } else {
    take_challenge(*body);
  }
}

void JoinHandshake::take_challenge(std::string_view body) {
  wire::Reader reader(body);
  transcript_.coordinator_nonce = read_nonce(reader);
  reader.finish();
  has_challenge_ = true;
  output_ += wire::framed(std::string(as_text(joiner_proof(token_, transcript_))));
}

void JoinHandshake::take_answer(std::string_view body) {
  wire::Reader reader(body);
  const auto status = reader.number<std::uint8_t>();
  Answer answer{static_cast<JoinStatus>(status), reader.text(kMaxReasonBytes)};
  const std::string_view proof = reader.take(Sha256{}.size());
  reader.finish();
  const Sha256 expected = coordinator_proof(token_, transcript_, answer);
  ENSURE(unexpected, equal_in_constant_time(proof, as_text(expected)),
         "it does not have the token of this run");
  ENSURE(unexpected, status >= 1 && status <= static_cast<std::uint8_t>(JoinStatus::out_of_range),
         "unknown answer {}", status);
  answer_ = std::move(answer);
}

}  // namespace trainctl::launch
