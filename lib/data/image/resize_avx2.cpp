#include "data/image/resize.hpp"

#include <immintrin.h>

#include <cstring>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace trainctl::data {
namespace {

AVX2_INLINE __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

AVX2_INLINE __m256i weight_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

/// kPairs: 0 where the number is known at run time only; the small ones are unrolled.
template <int kPairs>
AVX2_INLINE void vertical_32(const VerticalJob& job, std::int64_t at) {
  const __m256i zero = _mm256_setzero_si256();
  const int shift = job.precision - kMiddleBits;
  const __m128i count = _mm_cvtsi32_si128(shift);
  const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
  __m256i a = half;
  __m256i b = half;
  __m256i c = half;
  __m256i d = half;
  for (int p = 0; p < (kPairs > 0 ? kPairs : job.pairs); ++p) {
    const __m256i weights = weight_pair(job.weights + 2 * p);
    const __m256i upper = load(job.rows[2 * p] + at);
    const __m256i lower = load(job.rows[2 * p + 1] + at);
    const __m256i low = _mm256_unpacklo_epi8(upper, lower);
    const __m256i high = _mm256_unpackhi_epi8(upper, lower);
    a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weights));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weights));
    c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weights));
    d = _mm256_add_epi32(d, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weights));
  }
  // Unpacking and packing work within halves of a vector: the halves change places at the end.
  const __m256i ab = _mm256_packs_epi32(_mm256_sra_epi32(a, count), _mm256_sra_epi32(b, count));
  const __m256i cd = _mm256_packs_epi32(_mm256_sra_epi32(c, count), _mm256_sra_epi32(d, count));
  auto* out = reinterpret_cast<__m256i*>(job.out + at);
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(ab, cd, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(ab, cd, 0x31));
}

template <int kPairs>
AVX2 void vertical_rows(const VerticalJob& job) {
  constexpr std::int64_t kWidth = 32;
  for (std::int64_t at = 0; at + kWidth <= job.count; at += kWidth) vertical_32<kPairs>(job, at);
  if (job.count % kWidth != 0) vertical_32<kPairs>(job, job.count - kWidth);
}

void vertical(const VerticalJob& job) {
  if (job.count < 32) return vertical_from(job, 0);
  switch (job.pairs) {
    case 1: return vertical_rows<1>(job);
    case 2: return vertical_rows<2>(job);
    case 3: return vertical_rows<3>(job);
    default: return vertical_rows<0>(job);
  }
}

/// One row in each half of the vector.
AVX2_INLINE __m256i both_rows(const HorizontalJob& job, std::int64_t at) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(job.in[0] + at));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(job.in[1] + at));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

/// One pixel of both rows: the channels of two neighbours stand side by side for the multiply-add.
template <int kChannels, int kPairs>
AVX2_INLINE __m256i pixel(const HorizontalJob& job, std::int64_t x) {
  const AxisWeights& axis = *job.axis;
  const __m256i neighbours = _mm256_broadcastsi128_si256(
      kChannels == 3 ? _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1)
                     : _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  const int shift = axis.precision + kMiddleBits;
  const int pairs = kPairs > 0 ? kPairs : axis.pairs;
  const std::int16_t* weights = axis.weights.data() + x * 2 * pairs;
  const std::int64_t in = std::int64_t{kChannels} * axis.start[static_cast<std::size_t>(x)];
  __m256i sum = _mm256_set1_epi32(1 << (shift - 1));
  for (int p = 0; p < pairs; ++p) {
    const __m256i values = _mm256_shuffle_epi8(both_rows(job, in + 2 * kChannels * p), neighbours);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(values, weight_pair(weights + 2 * p)));
  }
  return _mm256_sra_epi32(sum, _mm_cvtsi32_si128(shift));
}

AVX2_INLINE void store(const HorizontalJob& job, std::int64_t at, __m256i bytes,
                       std::size_t count) {
  const __m128i rows[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
  std::memcpy(job.out[0] + at, &rows[0], count);
  std::memcpy(job.out[1] + at, &rows[1], count);
}

template <int kChannels, int kPairs>
AVX2_INLINE void four_pixels(const HorizontalJob& job, std::int64_t x) {
  const __m256i packed = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  const __m256i left =
      _mm256_packs_epi32(pixel<kChannels, kPairs>(job, x), pixel<kChannels, kPairs>(job, x + 1));
  const __m256i right = _mm256_packs_epi32(pixel<kChannels, kPairs>(job, x + 2),
                                           pixel<kChannels, kPairs>(job, x + 3));
  const __m256i bytes = _mm256_packus_epi16(left, right);
  store(job, kChannels * x, kChannels == 3 ? _mm256_shuffle_epi8(bytes, packed) : bytes,
        4 * kChannels);
}

/// One pixel of one channel of both rows, as four sums that are still to be added up: eight
/// neighbours at a time. `last` has the weights of its own among the last eight.
AVX2_INLINE __m256i quarter_sums(const HorizontalJob& job, std::int64_t x, __m128i last) {
  const AxisWeights& axis = *job.axis;
  const int taps = 2 * axis.pairs;
  const std::int16_t* weights = axis.weights.data() + x * taps;
  const std::int64_t in = axis.start[static_cast<std::size_t>(x)];
  __m256i sum = _mm256_setzero_si256();
  for (int k = 0; k < taps; k += 8) {
    __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + k));
    if (k + 8 > taps) eight = _mm_and_si128(eight, last);
    const __m256i products =
        _mm256_madd_epi16(both_rows(job, in + k), _mm256_broadcastsi128_si256(eight));
    sum = _mm256_add_epi32(sum, products);
  }
  return sum;
}

AVX2_INLINE void four_grey_pixels(const HorizontalJob& job, std::int64_t x, __m128i last) {
  const __m256i left =
      _mm256_hadd_epi32(quarter_sums(job, x, last), quarter_sums(job, x + 1, last));
  const __m256i right =
      _mm256_hadd_epi32(quarter_sums(job, x + 2, last), quarter_sums(job, x + 3, last));
  const int shift = job.axis->precision + kMiddleBits;
  __m256i sum = _mm256_hadd_epi32(left, right);
  sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << (shift - 1)));
  sum = _mm256_sra_epi32(sum, _mm_cvtsi32_si128(shift));
  const __m256i words = _mm256_packs_epi32(sum, sum);
  store(job, x, _mm256_packus_epi16(words, words), 4);
}

AVX2 void grey_rows(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  const auto left = static_cast<std::int16_t>(2 * job.axis->pairs % 8);
  const __m128i last =
      _mm_cmpgt_epi16(_mm_set1_epi16(left), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_grey_pixels(job, x, last);
  if (outputs % 4 != 0) four_grey_pixels(job, outputs - 4, last);
}

template <int kChannels, int kPairs>
AVX2 void horizontal_rows(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_pixels<kChannels, kPairs>(job, x);
  if (outputs % 4 != 0) four_pixels<kChannels, kPairs>(job, outputs - 4);
}

void horizontal(const HorizontalJob& job) {
  if (job.axis->start.size() < 4) return horizontal_from(job, 0);
  if (job.channels == 1) return grey_rows(job);
  if (job.channels == 4) return horizontal_rows<4, 0>(job);
  if (job.channels != 3) return horizontal_from(job, 0);
  switch (job.axis->pairs) {
    case 1: return horizontal_rows<3, 1>(job);
    case 2: return horizontal_rows<3, 2>(job);
    case 3: return horizontal_rows<3, 3>(job);
    default: return horizontal_rows<3, 0>(job);
  }
}

}  // namespace

const ResizeKernels& avx2_resize() {
  static constexpr ResizeKernels kAvx2{"avx2", 2, vertical, horizontal};
  return kAvx2;
}

}  // namespace trainctl::data
