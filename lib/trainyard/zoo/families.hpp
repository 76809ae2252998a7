#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A family of similar networks, for training and testing placers that learn.
struct NetworkFamily {
  std::string name;     // "cifar10"
  std::string summary;  // one line
  std::string source;
};

/// The families, which follow the data sets of Addanki et al.: Placeto, NeurIPS 2019, section 4:
///
///     cifar10   convolutional cells of random wiring, stacked, batch 240 to 360
///     ptb       a recurrent cell of random wiring, unrolled 25 to 40 steps, batch 1536 to 3072
///     nmt       translation by 2 layers of LSTMs, unrolled 16 to 32 steps, batch 64 to 128
std::span<const NetworkFamily> network_families();

/// The specs (make_network) of the first `count` members of the family, drawn with this seed. A member does not depend
/// on `count`. Throws InputError ("unknown-family", with the nearest name).
std::vector<std::string> family_members(std::string_view family, std::uint64_t seed, std::size_t count = 32);

}  // namespace trainyard
