#include "launch/rendezvous/handshake.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/rendezvous/wire.hpp"

#include <algorithm>
#include <limits>

namespace trainctl::launch {
namespace {

constexpr std::string_view kMagic = "trainctl";
constexpr std::size_t kHeadBytes = 4;  // length of a frame
constexpr std::size_t kShownBytes = 60;

// Texts are prefixed with their length and other fields have a fixed size: the encoding is unique.
std::string proved_text(std::string_view side, const Exchange& exchange) {
  std::string text;
  wire::put_text(text, "trainctl rendezvous");
  wire::put_text(text, side);
  wire::put(text, kHandshakeVersion);
  text += wire::as_text(exchange.joiner);
  text += wire::as_text(exchange.head);
  wire::put(text, static_cast<std::uint8_t>(exchange.claim.role));
  wire::put(text, static_cast<std::uint32_t>(exchange.claim.number));
  wire::put_text(text, exchange.run_id);
  return text;
}

std::string hello_body(const Exchange& exchange) {
  std::string body(kMagic);
  wire::put(body, kHandshakeVersion);
  wire::put(body, static_cast<std::uint8_t>(exchange.claim.role));
  wire::put(body, static_cast<std::uint32_t>(exchange.claim.number));
  body += wire::as_text(exchange.joiner);
  wire::put_text(body, exchange.run_id);
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

bool same_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // `volatile` keeps the compiler from returning early.
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const unsigned bits = static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    difference = difference | bits;
  }
  return difference == 0;
}

Sha256 joiner_proof(const Token& token, const Exchange& exchange) {
  return hmac_sha256(wire::as_text(token), proved_text("joiner", exchange));
}

Sha256 head_proof(const Token& token, const Exchange& exchange, const Answer& answer) {
  std::string text = proved_text("head", exchange);
  wire::put(text, static_cast<std::uint8_t>(answer.verdict));
  wire::put_text(text, answer.reason);
  return hmac_sha256(wire::as_text(token), text);
}

std::size_t FrameGatherer::wanted() const {
  if (pending_.size() < kHeadBytes) return kHeadBytes - pending_.size();
  const auto length = wire::Reader(pending_).number<std::uint32_t>();
  return kHeadBytes + length - pending_.size();
}

std::optional<std::string> FrameGatherer::take(std::string_view bytes) {
  ASSERT(bytes.size() <= wanted());
  pending_ += bytes;
  if (pending_.size() < kHeadBytes) return std::nullopt;
  const auto length = wire::Reader(pending_).number<std::uint32_t>();
  ENSURE(unexpected, length > 0 && length <= kMaxHandshakeBytes,
         "it sent {}, which is not a frame of 1 to {} bytes", shown(pending_), kMaxHandshakeBytes);
  if (pending_.size() < kHeadBytes + length) return std::nullopt;
  std::string body = pending_.substr(kHeadBytes);
  pending_.clear();
  return body;
}

// ---- the coordinator

HeadHandshake::HeadHandshake(const Token& token, std::string run_id, const Nonce& nonce)
    : token_(token) {
  exchange_.run_id = std::move(run_id);
  exchange_.head = nonce;
}

std::size_t HeadHandshake::wanted() const { return proved_ ? 0 : gatherer_.wanted(); }

void HeadHandshake::take(std::string_view bytes) {
  const auto body = gatherer_.take(bytes);
  if (!body) return;
  if (greeted_) {
    take_proof(*body);
  } else {
    take_hello(*body);
  }
}

void HeadHandshake::take_hello(std::string_view body) {
  ENSURE(unexpected, body.starts_with(kMagic), "it sent {}, which is not the rendezvous protocol",
         shown(body));
  wire::Reader reader(body.substr(kMagic.size()));
  const auto version = reader.number<std::uint8_t>();
  ENSURE(unexpected, version == kHandshakeVersion,
         "it uses protocol version {}, this node uses {}\nhint: run the same trainctl on all nodes",
         version, kHandshakeVersion);
  exchange_.claim = read_claim(reader);
  exchange_.joiner = read_nonce(reader);
  asked_for_ = reader.text(kMaxRunIdBytes);
  reader.finish();
  greeted_ = true;
  output_ += wire::framed(std::string(wire::as_text(exchange_.head)));
}

void HeadHandshake::take_proof(std::string_view body) {
  const Sha256 expected = joiner_proof(token_, exchange_);
  const bool is_right = same_in_constant_time(body, as_text(expected));
  ENSURE(unexpected, asked_for_ == exchange_.run_id, "it joins run {}, but this is run {}",
         shown(asked_for_), shown(exchange_.run_id));
  ENSURE(unexpected, is_right, "its token is different");
  proved_ = exchange_.claim;
}

void HeadHandshake::answer(const Answer& answer) {
  ASSERT(proved_ && answer.reason.size() <= kMaxReasonBytes);
  std::string body;
  wire::put(body, static_cast<std::uint8_t>(answer.verdict));
  wire::put_text(body, answer.reason);
  body += as_text(head_proof(token_, exchange_, answer));
  output_ += wire::framed(body);
}

// ---- the joining side

JoinHandshake::JoinHandshake(const Join& request, const Nonce& nonce) : token_(request.token) {
  exchange_ = {request.claim, request.run_id, nonce, {}};
  output_ = wire::framed(hello_body(exchange_));
}

std::size_t JoinHandshake::wanted() const { return answer_ ? 0 : gatherer_.wanted(); }

void JoinHandshake::take(std::string_view bytes) {
  const auto body = gatherer_.take(bytes);
  if (!body) return;
  if (challenged_) {
    take_answer(*body);
  } else {
    take_challenge(*body);
  }
}

void JoinHandshake::take_challenge(std::string_view body) {
  wire::Reader reader(body);
  exchange_.head = read_nonce(reader);
  reader.finish();
  challenged_ = true;
  output_ += wire::framed(std::string(as_text(joiner_proof(token_, exchange_))));
}

void JoinHandshake::take_answer(std::string_view body) {
  wire::Reader reader(body);
  const auto verdict = reader.number<std::uint8_t>();
  Answer answer{static_cast<Verdict>(verdict), reader.text(kMaxReasonBytes)};
  const std::string_view proof = reader.take(Sha256{}.size());
  reader.finish();
  const Sha256 expected = head_proof(token_, exchange_, answer);
  ENSURE(unexpected, same_in_constant_time(proof, as_text(expected)), "it does not know the token");
  ENSURE(unexpected, verdict >= 1 && verdict <= static_cast<std::uint8_t>(Verdict::out_of_range),
         "unknown answer {}", verdict);
  answer_ = std::move(answer);
}

}  // namespace trainctl::launch
