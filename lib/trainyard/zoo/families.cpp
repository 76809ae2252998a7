#include "trainyard/zoo/families.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/random.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kMostWirings = 2'147'483'647;

std::string cifar10(Random& random) {
  const std::int64_t wiring = random.between(0, kMostWirings);
  return fmt::format("enas_cifar10:wiring={},batch={}", wiring, random.between(240, 360));
}

std::string ptb(Random& random) {
  const std::int64_t wiring = random.between(0, kMostWirings), steps = random.between(25, 40);
  return fmt::format("enas_ptb:wiring={},steps={},batch={}", wiring, steps, random.between(1536, 3072));
}

std::string nmt(Random& random) {
  const std::int64_t steps = random.between(16, 32);
  return fmt::format("nmt:layers=2,steps={},batch={}", steps, random.between(64, 128));
}

struct Generator {
  NetworkFamily family;
  std::string (*draw)(Random&);
};

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all{
      {{"cifar10", "stacked convolutional cells with random wiring, batch 240 to 360",
        "after Addanki et al., Placeto, 2019, and Pham et al., ENAS, 2018"},
       &cifar10},
      {{"ptb", "recurrent cell with random wiring, unrolled over 25 to 40 steps, batch 1536 to 3072",
        "after Addanki et al., Placeto, 2019, and Pham et al., ENAS, 2018"},
       &ptb},
      {{"nmt", "translation by 2 LSTM layers with attention, unrolled over 16 to 32 steps, batch 64 to 128",
        "after Addanki et al., Placeto, 2019"},
       &nmt},
  };
  return all;
}

}  // namespace

std::span<const NetworkFamily> network_families() {
  static const std::vector<NetworkFamily> all = [] {
    std::vector<NetworkFamily> families;
    for (const Generator& generator : generators()) families.push_back(generator.family);
    return families;
  }();
  return all;
}

std::vector<std::string> family_members(std::string_view family, std::uint64_t seed, std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t kind = 0; kind < generators().size(); ++kind) {
    names.push_back(generators()[kind].family.name);
    if (names.back() != family) continue;
    std::vector<std::string> members;
    for (std::size_t member = 0; member < count; ++member) {
      Random random = Random::stream(seed, member * generators().size() + kind);
      members.push_back(generators()[kind].draw(random));
    }
    return members;
  }
  const auto near = nearest_name(family, names);
  refuse("unknown-family", fmt::format("there is no family '{}'", family),
         fmt::format("{}the families are {}", near ? fmt::format("did you mean '{}'? ", *near) : "",
                     fmt::join(names, ", ")));
}

}  // namespace trainyard
