/* SPDX-License-Identifier: Apache-2.0 */
/* other_layers.c - layers that other programs have and this one has not; what to use instead. */
#include "model/other_layers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>

#define NEAR     "use `silu`, which is close to it"
#define GATED    "use `gru 64` or `lstm 64`"
#define ROW      "give the samples as images of height 1 (an NPY array of shape n, c, 1, w), and "
#define LEFT_OUT "leave it out"
#define BLOCK                                                                                      \
	"use `attention 4` between `linear 384` and `linear 128`, in a residual, or model: gpt"

const struct tw_other_layer tw_other_layers[] = {
	/* activations */
	{ "selu", "use `elu`, whose outputs are not scaled" },
	{ "celu", "use `elu`" },
	{ "mish", NEAR },
	{ "hardswish", NEAR },
	{ "relu6", "use `relu`" },
	{ "rrelu", "use `prelu`, whose slope is trained, or `leaky-relu 0.25`" },
	{ "softsign", "use `tanh`" },
	{ "hardtanh", "use `tanh`" },
	{ "hardsigmoid", "use `sigmoid`" },
	{ "logsoftmax", LEFT_OUT ": the loss of classes includes it" },
	/* along one or three axes */
	{ "maxpool1d", ROW "use `maxpool 1x2`" },
	{ "avgpool1d", ROW "use `avgpool 1x2`" },
	{ "conv3d",
	  "give each sample as one image with the slices as channels, and use `conv 16 3x3`" },
	/* other shapes */
	{ "depthwiseconv", "use `conv 32 3x3 groups 32` on 32 channels" },
	{ "depthwiseconv2d", "use `conv 32 3x3 groups 32` on 32 channels" },
	{ "separableconv2d", "use `conv 32 3x3 groups 32` and `conv 64 1x1`" },
	{ "convtranspose", "end the network in `linear 784`, with as many outputs as pixels" },
	{ "convtranspose2d", "end the network in `linear 784`, with as many outputs as pixels" },
	{ "upsample", "end the network in `linear 784`, with as many outputs as pixels" },
	{ "adaptiveavgpool2d", "use `globalpool`, the mean of each channel" },
	{ "globalavgpool", "use `globalpool`, the mean of each channel" },
	{ "globalaveragepooling2d", "use `globalpool`, the mean of each channel" },
	{ "adaptivemaxpool2d", "use `globalpool`, the mean of each channel" },
	{ "zeropad2d", "pad in the next layer, such as `conv 16 3x3 pad 1`" },
	{ "reshape", "use `flatten`; the shape of the input comes from the data" },
	{ "input", LEFT_OUT ": the shape of the input comes from the data" },
	{ "identity", LEFT_OUT },
	{ "dropout2d", "use `dropout 0.5`, which drops single values" },
	{ "alphadropout", "use `dropout 0.5`" },
	/* normalisation */
	{ "instancenorm", "use `groupnorm 16` on 16 channels: a group for each" },
	{ "instancenorm2d", "use `groupnorm 16` on 16 channels: a group for each" },
	/* sequences */
	{ "bilstm", "use `lstm 64 both`" },
	{ "bigru", "use `gru 64 both`" },
	{ "recurrent", GATED },
	{ "transformer", BLOCK },
	{ "transformerencoder", BLOCK },
	{ "transformerencoderlayer", BLOCK },
	{ "positionalencoding", "use `positions`, which is trained, or `sinusoidal`" },
	{ "positionalembedding", "use `positions`, which is trained, or `sinusoidal`" },
	{ NULL },
};

static bool same(const char *word, const char *theirs)
{
	for (; *word; word++) {
		if (*word == '_' || *word == '-' || *word == ' ')
			continue;
		if (tolower((unsigned char)*word) != *theirs++)
			return false;
	}
	return !*theirs;
}

const struct tw_other_layer *tw_other_layer_find(const char *word)
{
	for (const struct tw_other_layer *l = tw_other_layers; l->theirs; l++)
		if (same(word, l->theirs))
			return l;
	return NULL;
}
