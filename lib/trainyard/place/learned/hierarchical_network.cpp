#include "trainyard/place/learned/hierarchical_definitions.hpp"

template class trainyard::learned::HierarchicalNetwork<float>;
