#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <isa-l/crc.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace trainctl {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(new State) { XXH3_64bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
void Hasher::add(std::string_view text) { add(std::as_bytes(std::span(text))); }
void Hasher::add(std::uint64_t value) { add(std::as_bytes(std::span(&value, 1))); }
std::uint64_t Hasher::value() const { return XXH3_64bits_digest(&state_->xxh); }
std::string Hasher::hex() const { return to_hex(value()); }

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;  // ISA-L takes the length as an int

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // ISA-L leaves the inversions of the standard, first and last, to its caller.
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    // Its older headers lack the const; it only reads.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = ::crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

namespace {

constexpr std::size_t kBlock = 64;

constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

std::uint32_t word_at(std::string_view block, std::size_t i) {
  std::uint32_t word = 0;
  for (const char c : block.substr(4 * i, 4)) word = word << 8U | static_cast<std::uint8_t>(c);
  return word;
}

/// The names are those of FIPS 180-4, section 6.2.2.
void take_block(State& state, std::string_view block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) w[t] = word_at(block, t);
  for (std::size_t t = 16; t < 64; ++t) {
    const auto s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3U;
    const auto s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10U;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const auto sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const auto t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const auto sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const auto t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const State worked{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += worked[i];
}

/// What stands behind the last whole block of a text of `size` bytes: the rest, a bit, and the
/// length in bits.
std::string padded_tail(std::string rest, std::uint64_t size) {
  rest += static_cast<char>(0x80);
  rest.resize((rest.size() + 8 + kBlock - 1) / kBlock * kBlock - 8, '\0');
  const std::uint64_t bits = size * 8;
  for (int shift = 56; shift >= 0; shift -= 8) rest += static_cast<char>(bits >> shift & 0xFFU);
  return rest;
}

}  // namespace

void Sha256Stream::add(std::string_view text) {
  size_ += text.size();
  if (!rest_.empty()) {
    const std::size_t taken = std::min(text.size(), kBlock - rest_.size());
    rest_ += text.substr(0, taken);
    text.remove_prefix(taken);
    if (rest_.size() < kBlock) return;
    take_block(state_, rest_);
  }
  for (; text.size() >= kBlock; text.remove_prefix(kBlock)) take_block(state_, text);
  rest_ = text;
}

Sha256 Sha256Stream::finish() {
  const std::string tail = padded_tail(std::move(rest_), size_);
  for (std::size_t at = 0; at < tail.size(); at += kBlock)
    take_block(state_, std::string_view(tail).substr(at, kBlock));
  Sha256 digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)) & 0xFFU);
  return digest;
}

Sha256 sha256(std::string_view text) {
  Sha256Stream stream;
  stream.add(text);
  return stream.finish();
}

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  std::string block(key);
  if (key.size() > kBlock) block = as_text(sha256(key));
  block.resize(kBlock, '\0');
  std::string inner = block;
  std::string outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  inner += text;
  outer += as_text(sha256(inner));
  return sha256(outer);
}

std::string to_hex(const Sha256& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string_view as_text(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace trainctl
