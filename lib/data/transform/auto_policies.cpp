#include "data/transform/auto_policies.hpp"

namespace trainctl::data {
namespace {

using Op = AugmentOp;

// Tables of "AutoAugment: Learning Augmentation Policies from Data" (Cubuk et al. 2019), as
// torchvision numbers them.
// clang-format off
constexpr AutoPolicy kImageNet[] = {
    {{{Op::posterize, 0.4, 8}, {Op::rotate, 0.6, 9}}},
    {{{Op::solarize, 0.6, 5}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::equalize, 0.8, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::posterize, 0.6, 7}, {Op::posterize, 0.6, 6}}},
    {{{Op::equalize, 0.4, 0}, {Op::solarize, 0.2, 4}}},
    {{{Op::equalize, 0.4, 0}, {Op::rotate, 0.8, 8}}},
    {{{Op::solarize, 0.6, 3}, {Op::equalize, 0.6, 0}}},
    {{{Op::posterize, 0.8, 5}, {Op::equalize, 1.0, 0}}},
    {{{Op::rotate, 0.2, 3}, {Op::solarize, 0.6, 8}}},
    {{{Op::equalize, 0.6, 0}, {Op::posterize, 0.4, 6}}},
    {{{Op::rotate, 0.8, 8}, {Op::color, 0.4, 0}}},
    {{{Op::rotate, 0.4, 9}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.0, 0}, {Op::equalize, 0.8, 0}}},
    {{{Op::invert, 0.6, 0}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.6, 4}, {Op::contrast, 1.0, 8}}},
    {{{Op::rotate, 0.8, 8}, {Op::color, 1.0, 2}}},
    {{{Op::color, 0.8, 8}, {Op::solarize, 0.8, 7}}},
    {{{Op::sharpness, 0.4, 7}, {Op::invert, 0.6, 0}}},
    {{{Op::shear_x, 0.6, 5}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.4, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.4, 0}, {Op::solarize, 0.2, 4}}},
    {{{Op::solarize, 0.6, 5}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::invert, 0.6, 0}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.6, 4}, {Op::contrast, 1.0, 8}}},
    {{{Op::equalize, 0.8, 0}, {Op::equalize, 0.6, 0}}},
};

constexpr AutoPolicy kCifar10[] = {
    {{{Op::invert, 0.1, 0}, {Op::contrast, 0.2, 6}}},
    {{{Op::rotate, 0.7, 2}, {Op::translate_x, 0.3, 9}}},
    {{{Op::sharpness, 0.8, 1}, {Op::sharpness, 0.9, 3}}},
    {{{Op::shear_y, 0.5, 8}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.5, 0}, {Op::equalize, 0.9, 0}}},
    {{{Op::shear_y, 0.2, 7}, {Op::posterize, 0.3, 7}}},
    {{{Op::color, 0.4, 3}, {Op::brightness, 0.6, 7}}},
    {{{Op::sharpness, 0.3, 9}, {Op::brightness, 0.7, 9}}},
    {{{Op::equalize, 0.6, 0}, {Op::equalize, 0.5, 0}}},
    {{{Op::contrast, 0.6, 7}, {Op::sharpness, 0.6, 5}}},
    {{{Op::color, 0.7, 7}, {Op::translate_x, 0.5, 8}}},
    {{{Op::equalize, 0.3, 0}, {Op::auto_contrast, 0.4, 0}}},
    {{{Op::translate_y, 0.4, 3}, {Op::sharpness, 0.2, 6}}},
    {{{Op::brightness, 0.9, 6}, {Op::color, 0.2, 8}}},
    {{{Op::solarize, 0.5, 2}, {Op::invert, 0.0, 0}}},
    {{{Op::equalize, 0.2, 0}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::equalize, 0.2, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::color, 0.9, 9}, {Op::equalize, 0.6, 0}}},
    {{{Op::auto_contrast, 0.8, 0}, {Op::solarize, 0.2, 8}}},
    {{{Op::brightness, 0.1, 3}, {Op::color, 0.7, 0}}},
    {{{Op::solarize, 0.4, 5}, {Op::auto_contrast, 0.9, 0}}},
    {{{Op::translate_y, 0.9, 9}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.9, 0}, {Op::solarize, 0.8, 3}}},
    {{{Op::equalize, 0.8, 0}, {Op::invert, 0.1, 0}}},
    {{{Op::translate_y, 0.7, 9}, {Op::auto_contrast, 0.9, 0}}},
};

constexpr AutoPolicy kSvhn[] = {
    {{{Op::shear_x, 0.9, 4}, {Op::invert, 0.2, 0}}},
    {{{Op::shear_y, 0.9, 8}, {Op::invert, 0.7, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::solarize, 0.6, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::rotate, 0.9, 3}}},
    {{{Op::shear_x, 0.9, 4}, {Op::auto_contrast, 0.8, 0}}},
    {{{Op::shear_y, 0.9, 8}, {Op::invert, 0.4, 0}}},
    {{{Op::shear_y, 0.9, 5}, {Op::solarize, 0.2, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::auto_contrast, 0.8, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::rotate, 0.9, 3}}},
    {{{Op::shear_x, 0.9, 4}, {Op::solarize, 0.3, 3}}},
    {{{Op::shear_y, 0.8, 8}, {Op::invert, 0.7, 0}}},
    {{{Op::equalize, 0.9, 0}, {Op::translate_y, 0.6, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::contrast, 0.3, 3}, {Op::rotate, 0.8, 4}}},
    {{{Op::invert, 0.8, 0}, {Op::translate_y, 0.0, 2}}},
    {{{Op::shear_y, 0.7, 6}, {Op::solarize, 0.4, 8}}},
    {{{Op::invert, 0.6, 0}, {Op::rotate, 0.8, 4}}},
    {{{Op::shear_y, 0.3, 7}, {Op::translate_x, 0.9, 3}}},
    {{{Op::shear_x, 0.1, 6}, {Op::invert, 0.6, 0}}},
    {{{Op::solarize, 0.7, 2}, {Op::translate_y, 0.6, 7}}},
    {{{Op::shear_y, 0.8, 4}, {Op::invert, 0.8, 0}}},
    {{{Op::shear_x, 0.7, 9}, {Op::translate_y, 0.8, 3}}},
    {{{Op::shear_y, 0.8, 5}, {Op::auto_contrast, 0.7, 0}}},
    {{{Op::shear_x, 0.7, 2}, {Op::invert, 0.1, 0}}},
};
// clang-format on

}  // namespace

std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy) {
  switch (policy) {
    case spec::transform::AutoAugmentPolicy::imagenet: return kImageNet;
    case spec::transform::AutoAugmentPolicy::cifar10: return kCifar10;
    case spec::transform::AutoAugmentPolicy::svhn: return kSvhn;
  }
  return kImageNet;
}

}  // namespace trainctl::data
