#include "trainyard/place/learned/rnn_definitions.hpp"

template class trainyard::learned::RnnNetwork<float>;
