#include "base/hash.hpp"

#define XXH_INLINE_ALL
// The EVP functions that OpenSSL 3 recommends slow down each start of the program: docs/adr/0018.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fmt/format.h>
#include <isa-l/crc.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include <algorithm>

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

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // ISA-L takes the length as an int
  // ISA-L leaves the initial and final bit inversion of the CRC to the caller.
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    // Older ISA-L headers lack the const, but the function only reads.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = ::crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

struct Sha256Stream::State {
  SHA256_CTX context;
};

Sha256Stream::Sha256Stream() : state_(new State) { ::SHA256_Init(&state_->context); }
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::add(std::string_view text) {
  ::SHA256_Update(&state_->context, text.data(), text.size());
}

Sha256 Sha256Stream::finish() {
  Sha256 digest{};
  ::SHA256_Final(digest.data(), &state_->context);
  return digest;
}

Sha256 sha256(std::string_view text) {
  Sha256Stream stream;
  stream.add(text);
  return stream.finish();
}

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlock = SHA256_CBLOCK;
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

std::string to_hex(const Sha256& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

std::string_view as_text(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace trainctl
