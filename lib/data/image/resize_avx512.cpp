#include "data/image/resize.hpp"

#include <immintrin.h>

#include <cstring>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define AVX512_INLINE __attribute__((target("avx512f,avx512bw,avx512vnni"), always_inline)) inline

namespace trainctl::data {
namespace {

AVX512_INLINE __m512i weight_pair(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm512_set1_epi32(pair);
}

template <int kPairs>
AVX512_INLINE void vertical_64(const VerticalJob& job, std::int64_t at) {
  const __m512i zero = _mm512_setzero_si512();
  const int shift = job.precision - kMiddleBits;
  const __m128i count = _mm_cvtsi32_si128(shift);
  __m512i a = _mm512_set1_epi32(1 << (shift - 1));
  __m512i b = a;
  __m512i c = a;
  __m512i d = a;
  for (int p = 0; p < (kPairs > 0 ? kPairs : job.pairs); ++p) {
    const __m512i weights = weight_pair(job.weights + 2 * p);
    const __m512i upper = _mm512_loadu_si512(job.rows[2 * p] + at);
    const __m512i lower = _mm512_loadu_si512(job.rows[2 * p + 1] + at);
    const __m512i low = _mm512_unpacklo_epi8(upper, lower);
    const __m512i high = _mm512_unpackhi_epi8(upper, lower);
    a = _mm512_dpwssd_epi32(a, _mm512_unpacklo_epi8(low, zero), weights);
    b = _mm512_dpwssd_epi32(b, _mm512_unpackhi_epi8(low, zero), weights);
    c = _mm512_dpwssd_epi32(c, _mm512_unpacklo_epi8(high, zero), weights);
    d = _mm512_dpwssd_epi32(d, _mm512_unpackhi_epi8(high, zero), weights);
  }
  // Unpacking and packing work within quarters of a vector: they change places at the end.
  const __m512i ab = _mm512_packs_epi32(_mm512_sra_epi32(a, count), _mm512_sra_epi32(b, count));
  const __m512i cd = _mm512_packs_epi32(_mm512_sra_epi32(c, count), _mm512_sra_epi32(d, count));
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(job.out + at, _mm512_permutex2var_epi64(ab, first, cd));
  _mm512_storeu_si512(job.out + at + 32, _mm512_permutex2var_epi64(ab, second, cd));
}

template <int kPairs>
AVX512 void vertical_rows(const VerticalJob& job) {
  constexpr std::int64_t kWidth = 64;
  for (std::int64_t at = 0; at + kWidth <= job.count; at += kWidth) vertical_64<kPairs>(job, at);
  if (job.count % kWidth != 0) vertical_64<kPairs>(job, job.count - kWidth);
}

void vertical(const VerticalJob& job) {
  if (job.count < 64) return avx2_resize().vertical(job);
  switch (job.pairs) {
    case 1: return vertical_rows<1>(job);
    case 2: return vertical_rows<2>(job);
    case 3: return vertical_rows<3>(job);
    default: return vertical_rows<0>(job);
  }
}

/// One row in each quarter of the vector.
AVX512_INLINE __m512i four_rows(const HorizontalJob& job, std::int64_t at) {
  const auto load = [&](std::size_t row) __attribute__((target("avx512f,avx512bw,avx512vnni"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(job.in[row] + at));
  };
  __m512i rows = _mm512_castsi128_si512(load(0));
  rows = _mm512_inserti32x4(rows, load(1), 1);
  rows = _mm512_inserti32x4(rows, load(2), 2);
  return _mm512_inserti32x4(rows, load(3), 3);
}

AVX512_INLINE void store(const HorizontalJob& job, std::int64_t at, __m512i bytes,
                         std::size_t count) {
  const __m128i rows[4] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                           _mm512_extracti32x4_epi32(bytes, 2),
                           _mm512_extracti32x4_epi32(bytes, 3)};
  for (std::size_t row = 0; row < 4; ++row) std::memcpy(job.out[row] + at, &rows[row], count);
}

/// One pixel of all rows: the channels of two neighbours stand side by side for the multiply-add.
template <int kChannels, int kPairs>
AVX512_INLINE __m512i pixel(const HorizontalJob& job, std::int64_t x) {
  const AxisWeights& axis = *job.axis;
  const __m512i neighbours = _mm512_broadcast_i32x4(
      kChannels == 3 ? _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1)
                     : _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  const int shift = axis.precision + kMiddleBits;
  const int pairs = kPairs > 0 ? kPairs : axis.pairs;
  const std::int16_t* weights = axis.weights.data() + x * 2 * pairs;
  const std::int64_t in = std::int64_t{kChannels} * axis.start[static_cast<std::size_t>(x)];
  __m512i sum = _mm512_set1_epi32(1 << (shift - 1));
  for (int p = 0; p < pairs; ++p) {
    const __m512i values =
        _mm512_shuffle_epi8(four_rows(job, in + std::int64_t{2} * kChannels * p), neighbours);
    sum = _mm512_dpwssd_epi32(sum, values, weight_pair(weights + 2 * p));
  }
  return _mm512_sra_epi32(sum, _mm_cvtsi32_si128(shift));
}

template <int kChannels, int kPairs>
AVX512_INLINE void four_pixels(const HorizontalJob& job, std::int64_t x) {
  const __m512i left =
      _mm512_packs_epi32(pixel<kChannels, kPairs>(job, x), pixel<kChannels, kPairs>(job, x + 1));
  const __m512i right = _mm512_packs_epi32(pixel<kChannels, kPairs>(job, x + 2),
                                           pixel<kChannels, kPairs>(job, x + 3));
  __m512i bytes = _mm512_packus_epi16(left, right);
  if constexpr (kChannels == 3) {
    bytes =
        _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                       0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)));
  }
  store(job, kChannels * x, bytes, 4 * kChannels);
}

/// One pixel of one channel of all rows, as four sums that are still to be added up: eight
/// neighbours at a time.
AVX512_INLINE __m512i quarter_sums(const HorizontalJob& job, std::int64_t x, __m128i last) {
  const AxisWeights& axis = *job.axis;
  const int taps = 2 * axis.pairs;
  const std::int16_t* weights = axis.weights.data() + x * taps;
  const std::int64_t in = axis.start[static_cast<std::size_t>(x)];
  __m512i sum = _mm512_setzero_si512();
  for (int k = 0; k < taps; k += 8) {
    __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + k));
    if (k + 8 > taps) eight = _mm_and_si128(eight, last);
    sum = _mm512_dpwssd_epi32(sum, four_rows(job, in + k), _mm512_broadcast_i32x4(eight));
  }
  return sum;
}

AVX512_INLINE void four_grey_pixels(const HorizontalJob& job, std::int64_t x, __m128i last) {
  const __m512i a = quarter_sums(job, x, last);
  const __m512i b = quarter_sums(job, x + 1, last);
  const __m512i c = quarter_sums(job, x + 2, last);
  const __m512i d = quarter_sums(job, x + 3, last);
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const int shift = job.axis->precision + kMiddleBits;
  __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  sum = _mm512_add_epi32(sum, _mm512_set1_epi32(1 << (shift - 1)));
  sum = _mm512_sra_epi32(sum, _mm_cvtsi32_si128(shift));
  const __m512i words = _mm512_packs_epi32(sum, sum);
  store(job, x, _mm512_packus_epi16(words, words), 4);
}

AVX512 void grey_rows(const HorizontalJob& job) {
  const auto outputs = static_cast<std::int64_t>(job.axis->start.size());
  const auto left = static_cast<std::int16_t>(2 * job.axis->pairs % 8);
  const __m128i last =
      _mm_cmpgt_epi16(_mm_set1_epi16(left), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::int64_t x = 0; x + 4 <= outputs; x += 4) four_grey_pixels(job, x, last);
  if (outputs % 4 != 0) four_grey_pixels(job, outputs - 4, last);
}

template <int kChannels, int kPairs>
AVX512 void horizontal_rows(const HorizontalJob& job) {
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

const ResizeKernels& avx512_resize() {
  static constexpr ResizeKernels kAvx512{"avx512", 4, vertical, horizontal};
  return kAvx512;
}

}  // namespace trainctl::data
